"""What each further draft token brought, by its rank in the tree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from service.speculation.controller import Outcome
from service.speculation.cost import Floats

_FIRST, _FALL = 0.6, 0.75
"""Before anything was seen: the chance of the first draft token, and of each further one relative to the one before."""


@dataclass
class Gains:
    """Of the first, second, ... draft token: how often it was there and how often accepted, recent steps more.

    Ranks are places in the tree. A step tells about the ranks within its budget only: what was not asked for is not
    known to be missing. Unknown ranks follow the prior, which is worth `trust` steps.

    Parameters: `budget` ranks; `discount` of a step against the next; `trust` steps.
    """

    budget: int
    discount: float = 0.98
    trust: float = 4.0
    _seen: Floats = field(init=False, repr=False)
    _there: Floats = field(init=False, repr=False)
    _accepted: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._seen, self._there, self._accepted = (np.zeros(self.budget) for _ in range(3))

    def observe(self, outcome: Outcome) -> None:
        """Learn from one request's step. Mutates."""
        asked = max(min(outcome.plan.budget, self.budget), min(outcome.proposed, self.budget))
        if asked == 0:
            return
        path = outcome.path if outcome.tree is not None else range(outcome.accepted)
        for column in (self._seen, self._there, self._accepted):
            column[:asked] *= self.discount
        self._seen[:asked] += 1
        self._there[: outcome.proposed] += 1
        self._accepted[[node for node in path if node < self.budget]] += 1

    @property
    def steps(self) -> float:
        """Steps that are remembered."""
        return float(self._seen[0])

    def expected(self, prior: tuple[Floats, Floats] | None = None) -> tuple[Floats, Floats]:
        """By rank: the accepted tokens and the rows that it adds on average."""
        chances, rows = prior or (_FIRST * _FALL ** np.arange(self.budget), np.ones(self.budget))
        weight = self._seen + self.trust
        gains, there = (self._accepted + self.trust * chances) / weight, (self._there + self.trust * rows) / weight
        known = int((self._seen >= 1).sum())
        if prior is None and 0 < known < self.budget:
            # Ranks that were never asked for go on as the known ones fall.
            fall = gains[known - 1] / gains[known - 2] if known > 1 else gains[0]
            gains[known:] = gains[known - 1] * min(max(float(fall), 0.3), 0.97) ** np.arange(1, self.budget - known + 1)
            there[known:] = there[known - 1]
        return gains, there
