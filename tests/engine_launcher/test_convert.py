from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")

from service.engine.convert import convert, float32_bytes  # noqa: E402
from service.engine.gguf_llama import hf_name  # noqa: E402
from service.engine.safetensors_io import write_float32  # noqa: E402
from service.engine.truncate import truncate  # noqa: E402
from service.errors import ConfigError  # noqa: E402
from tests.engine_launcher import tiny_gguf  # noqa: E402


def read(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    return made


def test_weights_come_out_as_they_went_in(source: Path, folder: Path) -> None:
    expected = tiny_gguf.write(source)
    written: list[int] = []
    convert(source, folder, written.append)
    weights = read(folder)
    assert weights.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(weights[name], array, err_msg=name)
        assert weights[name].dtype == np.float32
    assert sum(written) == float32_bytes(source) == sum(array.nbytes for array in expected.values())


def test_config_and_special_tokens(source: Path, folder: Path) -> None:
    tiny_gguf.write(source)
    convert(source, folder, lambda _: None)
    config = json.loads((folder / "config.json").read_text())
    assert config["num_hidden_layers"] == tiny_gguf.LAYERS
    assert config["num_key_value_heads"] == tiny_gguf.KV_HEADS
    assert config["tie_word_embeddings"] is True
    assert config["rms_norm_eps"] == 1e-5
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert (tokenizer["bos_token"], tokenizer["eos_token"]) == ("<|im_start|>", "<|im_end|>")


def test_tokenizer_merges_and_splits_digits(source: Path, folder: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tiny_gguf.write(source)
    convert(source, folder, lambda _: None)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = tokenizer.encode("<|im_start|>ab a12<|im_end|>")
    assert encoded.tokens == ["<|im_start|>", "ab", "Ġa", "1", "2", "<|im_end|>"]
    assert tokenizer.decode(encoded.ids, skip_special_tokens=True) == "ab a12"


def test_foreign_models_are_refused(source: Path, folder: Path) -> None:
    tiny_gguf.write(source, architecture="falcon")
    with pytest.raises(ValueError, match="'falcon'"):
        convert(source, folder, lambda _: None)
    source.unlink()
    tiny_gguf.write(source, rule="llama-bpe")
    with pytest.raises(ValueError, match="'llama-bpe'"):
        convert(source, folder, lambda _: None)


@pytest.mark.parametrize("name", ["blk.0.attn_rot.weight", "rope_freqs.weight", "v.blk.0.ln1.weight"])
def test_unknown_tensors_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not part of a Llama"):
        hf_name(name)


def test_tensors_must_come_as_announced(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected tensor 'a'"):
        write_float32(tmp_path / "x", {"a": (2,)}, [("b", memoryview(bytes(8)))], lambda _: None)
    with pytest.raises(ValueError, match="of 4 bytes"):
        write_float32(tmp_path / "x", {"a": (2,)}, [("a", memoryview(bytes(4)))], lambda _: None)


def test_truncated_models_keep_the_other_layers(source: Path, folder: Path, tmp_path: Path) -> None:
    tiny_gguf.write(source)
    convert(source, folder, lambda _: None)
    assert truncate(folder, tmp_path / "draft", {1}) == 2
    whole, cut = read(folder), read(tmp_path / "draft")
    assert json.loads((tmp_path / "draft" / "config.json").read_text())["num_hidden_layers"] == 2
    assert (tmp_path / "draft" / "tokenizer.json").is_file()
    assert len(cut) == len(whole) - 9
    np.testing.assert_array_equal(cut["model.layers.1.mlp.up_proj.weight"], whole["model.layers.2.mlp.up_proj.weight"])
    np.testing.assert_array_equal(cut["model.layers.0.mlp.up_proj.weight"], whole["model.layers.0.mlp.up_proj.weight"])


def test_impossible_cuts_are_refused(source: Path, folder: Path, tmp_path: Path) -> None:
    tiny_gguf.write(source)
    convert(source, folder, lambda _: None)
    for drop, message in (({3}, "do not exist"), ({0, 1, 2}, "at least one")):
        with pytest.raises(ConfigError, match=message):
            truncate(folder, tmp_path / "draft", drop)
    with pytest.raises(ConfigError, match=r"no config\.json"):
        truncate(tmp_path, tmp_path / "draft", {0})
    assert not (tmp_path / "draft").exists()
