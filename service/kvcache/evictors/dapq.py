"""`dapq`: what the answer's first tokens would look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens, attention_of


@dataclass(frozen=True)
class DapQ(ScoredTokens):
    """Queries of stand-in tokens at the answer's positions choose (DapQ).

    The engine reads 32 tokens behind the prompt (its own last ones again), takes their attention, and drops them.
    One choice for all layers and heads, by the mean. While the answer grows its own last queries choose.
    """

    window: ClassVar[int] = 32
    lookahead: ClassVar[int] = 32

    def score(self, view: CacheView) -> torch.Tensor:
        """Mean attention over layers and queries."""
        return attention_of(view).mean((0, 1))
