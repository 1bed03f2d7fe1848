"""Tiny random Llama models on disk: 64 tokens, made in milliseconds, gone with the test run."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

VOCABULARY = 64
MASK = 63


@cache
def tiny_model(seed: int = 0, layers: int = 3, vocabulary: int = VOCABULARY, context: int = 512) -> str:
    """Folder of a model whose weights depend on the seed alone; wide weights make near ties unlikely."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)  # threads cost tiny models more than they give
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.4,
        pad_token_id=None,
        pard_token=MASK,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    folder = tempfile.mkdtemp(prefix="tiny-llama-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    model.save_pretrained(folder)
    return folder


def add_tokenizer(folder: Path, tokens: dict[str, int]) -> None:
    """Write as much of a tokenizer.json as vocabularies are compared by."""
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
