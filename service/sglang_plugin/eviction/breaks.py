"""Which tokens end a sentence, a clause, a line or a part of JSON. Imports no sglang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

DELIMITERS = frozenset(".!?;:,\n)]}>")
"""What a token that ends something ends with, spaces apart."""


class Breaks:
    """Remembers each token that it was asked about."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def of(self, tokenizer: Any | None, tokens: Sequence[int]) -> torch.Tensor:
        """Bool [tokens]; none without a tokenizer. Mutates the memory."""
        if tokenizer is None:
            return torch.zeros(len(tokens), dtype=torch.bool)
        for token in set(tokens) - self._known.keys():
            text = tokenizer.decode([token], clean_up_tokenization_spaces=False).rstrip(" ")
            self._known[token] = bool(text) and text[-1] in DELIMITERS
        return torch.tensor([self._known[token] for token in tokens])
