"""Hugging Face tokenizer files from the vocabulary in a GGUF file."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from service.engine.gguf_llama import GgufLlama

_CONTROL_TOKEN = 3  # gguf.TokenType.CONTROL

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS = {
    # SmolLM splits numbers into digits before the usual GPT-2 rule.
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL],
    },
    "gpt-2": _BYTE_LEVEL,
}


def tokenizer_json(model: GgufLlama) -> dict[str, Any]:
    """The content of tokenizer.json: byte-level BPE.

    Raises ValueError for another kind of vocabulary, because a guess would tokenize slightly wrong.
    """
    kind, rule = model.field("tokenizer.ggml.model"), model.field("tokenizer.ggml.pre")
    if kind != "gpt2" or rule not in _PRE_TOKENIZERS:
        raise ValueError(f"cannot convert a {kind!r} tokenizer with the splitting rule {rule!r}")
    tokens: list[str] = model.field("tokenizer.ggml.tokens")
    types: list[int] = model.field("tokenizer.ggml.token_type")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, text)
            for index, (text, type_) in enumerate(zip(tokens, types, strict=True))
            if type_ == _CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": _PRE_TOKENIZERS[rule],
        "post_processor": None,
        "decoder": {**_BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: index for index, text in enumerate(tokens)},
            "merges": model.field("tokenizer.ggml.merges"),
        },
    }


def tokenizer_config(model: GgufLlama) -> dict[str, Any]:
    """The content of tokenizer_config.json; special tokens by their text."""
    tokens: list[str] = model.field("tokenizer.ggml.tokens")
    ids = model.special_ids()
    return {
        # The generic class keeps tokenizer.json as it is; GPT2Tokenizer would drop the digit rule.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": int(model.field("llama.context_length")),
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "bos_token": tokens[ids["bos_token_id"]],
        "eos_token": tokens[ids["eos_token_id"]],
        "pad_token": tokens[ids["pad_token_id"]],
        "unk_token": tokens[int(model.field("tokenizer.ggml.unknown_token_id"))],
    }


def chat_template() -> str:
    """SmolLM2's own template, extended by tools and by answers of tools.

    Messages without tools render exactly as the model's published template does.
    """
    return files("service.engine").joinpath("smollm2_chat_template.jinja").read_text(encoding="utf-8")


def _added_token(index: int, text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": text, **flags, "special": True}
