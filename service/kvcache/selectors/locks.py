"""`locks`: a small spectral picture of each page."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from service.kvcache.selection import PageSelector


@dataclass(frozen=True)
class Locks(PageSelector):
    """Each page's keys as centre and `rank` directions; its worth is the attention that they would get (LOCKS).

    Scores are rebuilt from the picture, pages weighed by log-sum-exp, and shares averaged over the query heads that
    share keys. With `rank` of a full page (its tokens, or the dimension) the choice is exact. The published method
    stores pictures in four bits; here they are float32.
    """

    rank: int = 8

    def summarize(self, keys: torch.Tensor) -> torch.Tensor:
        """[pages, kv_heads, dim + rank * (dim + page)]: centre, directions and coefficients, one behind the other."""
        rows = keys.float().transpose(1, 2)
        centre = rows.mean(2, keepdim=True)
        left, strength, directions = torch.linalg.svd(rows - centre, full_matrices=False)
        # No page has more directions than tokens; where the dimension is smaller still, the others are zero.
        rank = min(self.rank, keys.shape[1])
        absent = max(0, rank - strength.shape[-1])
        weights = pad(left[..., :rank] * strength[..., None, :rank], (0, absent))
        parts = (centre, pad(directions[..., :rank, :], (0, 0, 0, absent)), weights)
        return torch.cat([part.flatten(2) for part in parts], 2)

    def summary_size(self, page: int, dim: int) -> int:
        """Centre, directions and coefficients."""
        return dim + min(self.rank, page) * (dim + page)

    def score(self, query: torch.Tensor, summaries: torch.Tensor, scale: float, history: torch.Tensor) -> torch.Tensor:
        """Mean share of the page in the attention of the group's heads."""
        del history
        pages, kv_heads, size = summaries.shape
        dim = query.shape[-1]
        grouped = query.float().view(kv_heads, -1, dim) * scale
        centre, directions, weights = self._parts(summaries, pages, kv_heads, size, dim)
        seen = torch.einsum("hgd,phrd->phgr", grouped, directions)
        logits = (
            torch.einsum("phgr,phtr->phgt", seen, weights) + torch.einsum("hgd,phd->phg", grouped, centre)[..., None]
        )
        return logits.logsumexp(-1).softmax(0).mean(-1).T

    def _parts(
        self, summaries: torch.Tensor, pages: int, kv_heads: int, size: int, dim: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # rank * (dim + page) numbers follow the centre, and rank is at most the page's length.
        rest = size - dim
        rank = self.rank if rest % self.rank == 0 and rest // self.rank - dim >= self.rank else _full_rank(rest, dim)
        directions = summaries[..., dim : dim + rank * dim].view(pages, kv_heads, rank, dim)
        weights = summaries[..., dim + rank * dim :].view(pages, kv_heads, -1, rank)
        return summaries[..., :dim], directions, weights


def _full_rank(rest: int, dim: int) -> int:
    """The rank r of a page of r tokens, from r * (dim + r) = rest."""
    return next(rank for rank in range(1, rest + 1) if rank * (dim + rank) == rest)
