"""`h2o`: heavy hitters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens


@dataclass(frozen=True)
class HeavyHitters(ScoredTokens):
    """The attention that a token got from all queries so far (H2O, https://arxiv.org/abs/2306.14048).

    Half of the budget is for the newest tokens, as in the paper. Early tokens are seen by more queries and so
    favoured. Costs a second attention over the whole prompt, and prompts are read in full where a prefix is cached.
    """

    recent_share: float = 0.5
    every_query: ClassVar[bool] = True

    def score(self, view: CacheView) -> torch.Tensor:
        """Attention so far."""
        if view.mass is None:
            raise ValueError("the policy scores by attention, and none was observed")
        return view.mass

    def recent_of(self, budget: int) -> int:
        """The larger of `recent` and the share, as far as the sinks leave room."""
        return max(self.recent, min(int(budget * self.recent_share), budget - self.sinks))
