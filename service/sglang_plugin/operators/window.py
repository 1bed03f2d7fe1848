"""Which rows of a text a pass reads packed, and which in full precision. Imports no sglang."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class WindowShape:
    """The first `sinks` tokens of a text, and to each query its newest `recent` ones, itself included.

    `width` are the most rows that one verify step adds. Raises ValueError for a window that such a step outgrows.
    """

    sinks: int
    recent: int
    width: int

    def __post_init__(self) -> None:
        if self.sinks < 0 or self.recent < self.width:
            raise ValueError(
                f"kv.full_recent {self.recent} does not hold a verify step of {self.width} rows: set at least that"
            )

    @property
    def ring(self) -> int:
        """Places of the newest tokens: a window, and the rows of a step that may be thrown away again."""
        return self.recent + self.width

    @property
    def places(self) -> int:
        """Rows in full precision of one request."""
        return self.sinks + self.ring

    def places_of(self, row: int, positions: torch.Tensor) -> torch.Tensor:
        """Where tokens of the request in `row` lie in full precision, int64; newer ones take the places of older."""
        within = torch.where(positions < self.sinks, positions, self.sinks + (positions - self.sinks) % self.ring)
        return row * self.places + within


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The rows that one request's pass reads, in this order: packed ones, earlier ones in full precision, its own.

    `packed` are positions of the text, a slice, None for none; `past` are places of `WindowShape.places_of`. `mask` is
    bool [queries, rows], None when every query sees every row, or with `causal` all up to itself. Of the own rows
    `kept` are stored at `places`.
    """

    packed: slice | None
    past: torch.Tensor
    kept: torch.Tensor
    places: torch.Tensor
    mask: torch.Tensor | None
    causal: bool


def plan_window(shape: WindowShape, row: int, start: int, own: torch.Tensor) -> WindowPlan:
    """The plan of a pass over new tokens behind the first `start` of the text in `row`.

    `own` is bool [n, n], which of the new tokens each of them sees: those before it, in a tree its ancestors. Every
    query sees what it would in a step of its own, so that pieces and drafts change nothing.
    """
    n, sinks, recent = len(own), shape.sinks, shape.recent
    at = start + own.sum(1) - 1
    end = int(at.max()) - recent + 1
    packed = slice(sinks, end) if end > sinks else None
    past = torch.cat((torch.arange(min(sinks, start)), torch.arange(max(sinks, start - recent + 1), max(start, sinks))))
    chain = start + torch.arange(n)
    kept = ((chain < sinks) | (chain >= start + n - shape.ring)).nonzero().flatten()
    causal = n > 1 and start == 0 and packed is None
    mask = None
    if n > 1 and not causal:
        queries = at[:, None]
        parts = [(past < sinks) | (past > queries - recent), own & ((at < sinks) | (at > queries - recent))]
        if packed is not None:
            parts.insert(0, torch.arange(sinks, end) <= queries - recent)
        mask = torch.cat(parts, 1)
    return WindowPlan(packed, shape.places_of(row, past), kept, shape.places_of(row, chain[kept]), mask, causal)
