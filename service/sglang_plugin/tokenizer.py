"""The model's tokenizer as drafters see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self


class ModelTokenizer:
    """Wraps a Hugging Face tokenizer; no special tokens are added, none are left out."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def of(cls, tokenizer: Any | None) -> Self | None:
        """The wrapper; None when the engine was started without a tokenizer."""
        return None if tokenizer is None else cls(tokenizer)

    def encode(self, text: str) -> list[int]:
        """Token ids of the text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))
