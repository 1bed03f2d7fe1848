"""`dynsplit`: whole sentences, lines and clauses that the last tokens look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens, attention_of


@dataclass(frozen=True)
class DynSplit(ScoredTokens):
    """Tokens stay and go in blocks that end where the text has a break (after DynSplit-KV).

    A block has `shortest` to `longest` tokens. Of the breaks in that range it ends at the one behind which the next
    queries keep most to themselves, as far as attention tells; without a break it is `longest` tokens long, so that a
    text without breaks is split evenly. A block is worth the mean attention that the last 32 queries give its tokens.

    The published method pads blocks to equal slots and selects them for each step; here they are evicted, and only
    the last block that fits is cut. As for `h2o`, prompts are read in full where a prefix is cached.
    """

    shortest: int = 4
    longest: int = 24
    window: ClassVar[int] = 32
    every_query: ClassVar[bool] = True
    onset: ClassVar[int] = 8
    wants_breaks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.shortest <= self.longest:
            raise ValueError("shortest must be 1 or more, and longest no less")

    def score(self, view: CacheView) -> torch.Tensor:
        """Each token's is its block's."""
        worth = attention_of(view).mean((0, 1))
        ends = torch.tensor(list(self.ends(view)))
        block = torch.searchsorted(ends, torch.arange(view.held), right=True)
        sums = torch.zeros(len(ends)).index_add_(0, block, worth)
        return (sums / block.bincount(minlength=len(ends)))[block]

    def ends(self, view: CacheView) -> Iterator[int]:
        """Where blocks end, the first column behind each, ascending; the last is `view.held`."""
        if view.breaks is None or view.onset is None:
            raise ValueError("the policy splits at breaks by attention, and none was observed")
        breaks, onset = view.breaks.tolist(), [*view.onset.tolist(), 0.0]
        start = 0
        while view.held - start > self.longest:
            fit = [end for end in range(start + self.shortest, start + self.longest + 1) if breaks[end - 1]]
            start = max(fit, key=lambda end: onset[end], default=start + self.longest)
            yield start
        yield view.held
