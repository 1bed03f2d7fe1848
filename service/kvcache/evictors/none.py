"""`none`: evicts nothing."""

from __future__ import annotations

import torch

from service.kvcache.eviction import CacheView, TokenEvictionPolicy


class KeepAll(TokenEvictionPolicy):
    """The baseline."""

    def keep(self, view: CacheView, budget: int) -> torch.Tensor:
        """Everything."""
        del budget
        return torch.arange(view.held)

    def least_budget(self) -> int:
        """Any."""
        return 0
