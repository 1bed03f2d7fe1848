"""Which request gets how many draft tokens, when all share one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from service.speculation.cost import Floats


@dataclass(frozen=True, slots=True)
class Offer:
    """What one request could draft: by rank the expected accepted tokens and rows, and the drafting time in rows."""

    gains: Floats
    rows: Floats
    start: float = 0.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Draft tokens for each request, and the predicted tokens per cost of the step in plain steps' (1 = plain).

    `for_all` is the best speedup of a step in which each request that offers drafts gets some.
    """

    nodes: tuple[int, ...]
    speedup: float
    for_all: float


def allocate(offers: Sequence[Offer], batch: int, cost: Callable[[Floats, Floats], Floats]) -> Allocation:
    """The best of all allocations that take the most worthwhile draft tokens first, at least one.

    `batch` are the requests of the pass, each of which commits one token anyway; `cost(rows, starts)` is the cost in
    plain steps of a pass with so many rows more, where drafting took as long as `starts` rows. A request's ranks are
    taken in order; where a later rank is worth more than an earlier one both are taken together.
    """
    blocks = [(ratio, owner, *rest) for owner, offer in enumerate(offers) for ratio, *rest in worthwhile(offer)]
    if not blocks:
        return Allocation((0,) * len(offers), 1.0, 1.0)
    blocks.sort(key=lambda block: -block[0])
    _, owners, ends, gains, rows, starts = (np.array(column) for column in zip(*blocks, strict=True))
    speedups = (1 + np.cumsum(gains) / batch) / cost(np.cumsum(rows), np.cumsum(starts))
    best = int(speedups.argmax())
    nodes = [0] * len(offers)
    for owner, end in zip(owners[: best + 1].tolist(), ends[: best + 1].tolist(), strict=True):
        nodes[owner] = max(nodes[owner], int(end))
    everyone = int(np.unique(owners, return_index=True)[1].max())
    return Allocation(tuple(nodes), float(speedups[best]), float(speedups[everyone:].max()))


def worthwhile(offer: Offer) -> list[tuple[float, int, float, float, float]]:
    """Groups of ranks by falling worth: (tokens a row, last rank + 1, tokens, rows, drafting in rows)."""
    groups: list[tuple[float, int, float, float, float]] = []
    for rank, (gain, rows) in enumerate(zip(offer.gains.tolist(), offer.rows.tolist(), strict=True)):
        start = offer.start if rank == 0 else 0.0
        groups.append((gain / max(rows + start, 1e-9), rank + 1, gain, rows, start))
        while len(groups) > 1 and groups[-2][0] < groups[-1][0]:
            (_, _, g1, r1, s1), (_, end, g2, r2, s2) = groups[-2:]
            groups[-2:] = [((g1 + g2) / max(r1 + r2 + s1 + s2, 1e-9), end, g1 + g2, r1 + r2, s1 + s2)]
    return groups
