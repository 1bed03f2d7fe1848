"""The easy way to write an eviction policy: one score for each token."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch.nn.functional import avg_pool1d

from service.kvcache.eviction import CacheView, TokenEvictionPolicy


@dataclass(frozen=True)
class ScoredTokens(TokenEvictionPolicy):
    """Keeps the first `sinks` and the last `recent` tokens of the text, and the best of the others by `score`."""

    sinks: int = 4
    recent: int = 32

    def __post_init__(self) -> None:
        if self.sinks < 0 or self.recent < 1:
            raise ValueError("sinks must be 0 or more and recent 1 or more tokens")

    @abstractmethod
    def score(self, view: CacheView) -> torch.Tensor:
        """The worth of every held token, float [held]; higher stays. A pure function."""

    def least_budget(self) -> int:
        """Sinks and recent tokens always stay."""
        return self.sinks + self.recent

    def recent_of(self, budget: int) -> int:
        """How many of the newest tokens stay in any case; `recent`, unless overridden."""
        del budget
        return self.recent

    def keep(self, view: CacheView, budget: int) -> torch.Tensor:
        """Sinks, recent tokens, and the best others. Raises ValueError for a budget below `least_budget`."""
        if budget >= view.held:
            return torch.arange(view.held)
        if budget < self.least_budget():
            raise ValueError(f"a budget of {budget} tokens has no room for {self.sinks} sinks and {self.recent} recent")
        always = (view.positions < self.sinks) | (view.positions >= view.length - self.recent_of(budget))
        # A stable order, so that of equal tokens the later ones stay, on every machine.
        worth = self.score(view).masked_fill(always, float("inf"))
        order = worth.flip(0).argsort(descending=True, stable=True)[:budget]
        return (view.held - 1 - order).sort().values


def attention_of(view: CacheView) -> torch.Tensor:
    """The view's attention. Raises ValueError when nobody gathered it."""
    if view.attention is None or view.attention.shape[1] == 0:
        raise ValueError("the policy scores by attention, and none was observed")
    return view.attention


def smoothed(scores: torch.Tensor, kernel: int) -> torch.Tensor:
    """The mean over `kernel` neighbours (an odd number), as far as there are any: float [held] -> the same."""
    return avg_pool1d(scores[None, None], kernel, 1, kernel // 2, count_include_pad=False)[0, 0]
