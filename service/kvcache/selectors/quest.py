"""`quest`: bounds of each page's keys."""

from __future__ import annotations

import torch

from service.kvcache.selection import PageSelector


class Quest(PageSelector):
    """The highest score that any key within a page's least and greatest channel values could get
    (Quest, https://arxiv.org/abs/2406.10774); of the query heads that share keys the highest counts.

    Summaries are 2 of `page` key rows. Long pages have loose bounds.
    """

    def summarize(self, keys: torch.Tensor) -> torch.Tensor:
        """[pages, kv_heads, 2, dim]: least and greatest value of each channel."""
        return torch.stack((keys.amin(1), keys.amax(1)), 2).float()

    def summary_size(self, page: int, dim: int) -> int:
        """Two key rows, whatever the page's length."""
        del page
        return 2 * dim

    def score(self, query: torch.Tensor, summaries: torch.Tensor, scale: float, history: torch.Tensor) -> torch.Tensor:
        """Upper bound of the scores, its highest in the group of heads."""
        del history
        kv_heads = summaries.shape[1]
        grouped = query.float().view(kv_heads, -1, query.shape[-1])
        # A positive channel of the query is bounded by the greatest key, a negative one by the least.
        low, high = summaries[:, :, 0].permute(1, 2, 0), summaries[:, :, 1].permute(1, 2, 0)
        bound = grouped.clamp(min=0) @ high + grouped.clamp(max=0) @ low
        return bound.amax(1) * scale
