"""Which tokens of one request still have their KV. Imports no sglang."""

from __future__ import annotations

import torch


class HeldTokens:
    """The positions of one request's row that hold KV: a chosen set below `upto`, and everything from there on."""

    def __init__(self) -> None:
        self.kept = torch.empty(0, dtype=torch.int64)
        self.upto = 0

    @property
    def whole(self) -> bool:
        """Whether nothing was evicted."""
        return len(self.kept) == self.upto

    def count(self, length: int) -> int:
        """Held tokens among the first `length` (>= `upto`)."""
        return length - self.upto + len(self.kept)

    def positions(self, length: int) -> torch.Tensor:
        """Held positions below `length` (>= `upto`), int64, ascending."""
        return torch.cat((self.kept, torch.arange(self.upto, length)))

    def inside(self, ranges: list[tuple[int, int]]) -> torch.Tensor:
        """Held positions in half-open ranges, int64."""
        parts = []
        for start, end in ranges:
            parts.append(self.kept[(self.kept >= start) & (self.kept < end)])
            parts.append(torch.arange(max(start, self.upto), max(end, self.upto)))
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def holes(self, start: int) -> int:
        """Evicted positions at or behind `start`."""
        return max(self.upto - start, 0) - int((self.kept >= start).sum())

    def keep(self, positions: torch.Tensor, length: int) -> None:
        """Hold only these of the positions below `length`. Mutates."""
        self.kept, self.upto = positions, length
