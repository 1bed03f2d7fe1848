"""Turn a GGUF file into a Hugging Face model folder in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from service.engine.files import write_json
from service.engine.gguf_llama import GgufLlama
from service.engine.safetensors_io import write_float32
from service.engine.tokenizer import chat_template, tokenizer_config, tokenizer_json

WEIGHTS_NAME = "model.safetensors"


def float32_bytes(source: Path) -> int:
    """Size of the weights after conversion, bytes."""
    return 4 * sum(math.prod(shape) for shape in GgufLlama(source).shapes().values())


def convert(source: Path, folder: Path, advance: Callable[[int], None]) -> None:
    """Write config, weights, tokenizer and chat template into an existing `folder`.

    Blocks for seconds, holds one tensor at a time; `advance` gets the bytes of weights just written.
    Raises ValueError when `source` is not a Llama model with a known tokenizer.
    """
    model = GgufLlama(source)
    write_json(folder / "config.json", model.config())
    write_json(folder / "generation_config.json", dict(model.special_ids()))
    write_json(folder / "tokenizer.json", tokenizer_json(model))
    write_json(folder / "tokenizer_config.json", tokenizer_config(model))
    (folder / "chat_template.jinja").write_text(chat_template(), encoding="utf-8")
    write_float32(folder / WEIGHTS_NAME, model.shapes(), _buffers(model), advance)


def _buffers(model: GgufLlama) -> Iterator[tuple[str, memoryview]]:
    for tensor in model.tensors():
        yield tensor.name, tensor.data.reshape(-1).view("u1").data
