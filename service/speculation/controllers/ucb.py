"""UCB: the arm that could be best, by what it gave so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from service.speculation.arms import ArmController, Columns, Tally
from service.speculation.controller import Outcome, RequestView
from service.speculation.price import Floats, Price


@dataclass
class Ucb(ArmController):
    """UCBSpec of BanditSpec: play the arm with the highest upper confidence bound on tokens per cost.

    Every arm's mean tokens get the paper's radius, (L/2) sqrt((1+n)/n^2 (1 + 2 ln(K t^2 sqrt(1+n) / delta))) with n
    the pulls of this very arm, times `scale`; instead of L/2, the most that the spread of an arm can be, its measured
    spread is taken. The bound is divided by the arm's mean cost in plain steps, so that a slow drafter must earn its
    time. The plain step is an arm whose worth is known, exactly 1. Old rounds are discounted, because text changes. Not
    for very many arms: each costs rounds until it is known to be worse.

    Source: BanditSpec, arXiv 2505.15141, algorithm 2; the scale, measured spread, cost, discount and prior are ours.

    Parameters: `shares` of the budget that each drafter is offered with (default the whole); `off` whether plain steps
    are an arm (default true); `discount` of a request's round against the next (default 0.98); `prior` rounds that what
    other requests showed counts for (default 8); `scale` of the radius (default 0.25; the paper's theory has 1, far too
    shy for answers of some hundred rounds); `delta` the confidence (default 0.05); `measured` spread (default true; as
    published false).
    """

    scale: float = 0.25
    delta: float = 0.05
    measured: bool = True
    columns: ClassVar[int] = 3

    _halves: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._halves = np.array([arm.budget / 2 for arm in self.arms])

    def pick(self, requests: Sequence[RequestView], known: Sequence[Tally], price: Price) -> list[int]:
        """The arm with the highest bound; arms that nobody played come first, requests of one step spread over them."""
        del requests
        waiting = np.zeros(len(self.arms))
        drafts = np.array([price.draft(arm.drafter, arm.budget) for arm in self.arms])
        chosen = []
        for tally in known:
            bounds = self.bounds(tally, waiting, price.node, drafts)
            arm = int(bounds.argmax())
            waiting[arm] += 1
            chosen.append(arm)
        return chosen

    def bounds(self, tally: Tally, waiting: Floats, node: float, drafts: Floats) -> Floats:
        """Tokens per cost that each arm could have: `node` prices a row, `drafts` each arm's drafting.

        `waiting` are rounds that are being played now.
        """
        rounds, played = tally.rounds + waiting, tally.rounds > 0
        n, total = np.maximum(rounds, 1e-9), max(1.0, float(rounds.sum()))
        safe = np.maximum(tally.rounds, 1e-9)
        tokens, nodes, squares = tally.columns / safe
        inside = 1 + 2 * np.log(len(self.arms) * total**2 * np.sqrt(1 + n) / self.delta)
        spread = self._halves
        if self.measured:
            variance = tally.rounds * np.maximum(squares - tokens**2, 0.0) + self._halves**2 / 2
            spread = np.minimum(spread, np.sqrt(variance / (tally.rounds + 2)))
        radius = self.scale * spread * np.sqrt((1 + n) / n**2 * inside)
        costs = 1 + node * nodes + drafts
        bounds: Floats = np.where(played, (tokens + radius) / costs, np.where(waiting > 0, 0.0, np.inf))
        if self.off:
            bounds[-1] = 1.0
        return bounds

    def learn(self, outcome: Outcome, arm: int, price: Price) -> Columns:
        """Committed tokens and verified nodes of the arm that was played."""
        del price
        tokens = outcome.accepted + 1.0
        return {arm: (tokens, float(outcome.proposed), tokens**2)}
