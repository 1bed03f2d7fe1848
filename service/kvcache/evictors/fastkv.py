"""`fastkv`: what one middle layer's last tokens look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens, attention_of, smoothed


@dataclass(frozen=True)
class FastKv(ScoredTokens):
    """The choice of FastKV's token-selective layer (https://arxiv.org/abs/2502.01068), for all layers.

    Attention of the last 8 queries in the layer at `depth` (share of all layers, in the published model 15 of 32),
    smoothed over 7 neighbours. The published method also stops computing the dropped tokens in later layers during
    prefill; that half is not done here, so prefill is no faster.
    """

    depth: float = 0.47
    kernel: int = 7
    window: ClassVar[int] = 8

    def score(self, view: CacheView) -> torch.Tensor:
        """Mean attention over the queries of the one layer, smoothed."""
        attention = attention_of(view)
        layer = min(int(self.depth * attention.shape[0]), attention.shape[0] - 1)
        return smoothed(attention[layer].mean(0), self.kernel)
