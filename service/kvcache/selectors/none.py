"""`none`: reads everything."""

from __future__ import annotations

import torch

from service.kvcache.selection import PageSelector


class ReadAll(PageSelector):
    """The baseline: every page is worth the same."""

    def summarize(self, keys: torch.Tensor) -> torch.Tensor:
        """Nothing of each page."""
        return keys.new_zeros(keys.shape[0], keys.shape[2], 0)

    def summary_size(self, page: int, dim: int) -> int:
        """Nothing."""
        del page, dim
        return 0

    def score(self, query: torch.Tensor, summaries: torch.Tensor, scale: float, history: torch.Tensor) -> torch.Tensor:
        """Zero."""
        del query, scale, history
        return summaries.new_zeros(summaries.shape[1], summaries.shape[0])
