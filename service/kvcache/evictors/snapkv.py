"""`snapkv`: what the last tokens look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens, attention_of, smoothed


@dataclass(frozen=True)
class SnapKv(ScoredTokens):
    """The attention of the last 32 queries, smoothed over neighbours (SnapKV, https://arxiv.org/abs/2404.14469).

    Published per head; here one choice for all layers and heads, by the mean. The paper compresses the prompt once;
    here the answer's own last queries choose again when it outgrows the budget. Not for prompts whose question stands
    far from their end. `kernel` is the number of neighbours, odd.
    """

    kernel: int = 7
    window: ClassVar[int] = 32

    def score(self, view: CacheView) -> torch.Tensor:
        """Mean attention over layers and queries, smoothed."""
        return smoothed(attention_of(view).mean((0, 1)), self.kernel)
