"""Hedge: all cheap drafters propose, one is verified, all learn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from service.speculation.arms import Arm, ArmController, Columns, Tally
from service.speculation.controller import Outcome, Plan, RequestView
from service.speculation.controllers.exp3 import loss_of
from service.speculation.price import Floats, Price


@dataclass
class Hedge(ArmController):
    """Exponential weights with full information: arm i with probability ~ exp(-eta_t * its summed losses).

    Each round every drafter that is cheap enough proposes; the text that was committed tells what each would have got
    accepted, so that all arms learn from every round and many arms cost next to nothing. eta_t = sqrt(8 ln K / t); a
    round's loss is 1 - (tokens per cost) / `span`, cut to [0, 1]. A drafter that was not asked is taken to get as much
    accepted as the average of those that were, in its own time. Not for drafters that run a model: their proposals
    cost too much to throw away.

    Source: Hedge of Freund and Schapire; for drafters "Not-a-Bandit", arXiv 2510.20064. The cost is ours.

    Parameters: `shares`, `off`, `discount`, `prior` as for `ucb`; `span` (default 6) and `eagerness` (default 12) as
    for `exp3`; `spare` share of a plain step that the shadows of one request may take (default 0.02).
    """

    prior: float = 8.0
    span: float = 6.0
    eagerness: float = 12.0
    spare: float = 0.02
    _draw: random.Random = field(init=False, repr=False)
    _price: Price | None = field(default=None, init=False, repr=False)
    _runs: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _tried: set[str] = field(default_factory=set, init=False, repr=False)

    columns: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draw = random.Random(self.setting.seed)

    def pick(self, requests: Sequence[RequestView], known: Sequence[Tally], price: Price) -> list[int]:
        """An arm for each request, drawn."""
        del requests
        self._price = price
        self._tried.clear()
        return [self._draw.choices(range(len(self.arms)), self.chances(tally).tolist())[0] for tally in known]

    def chances(self, tally: Tally) -> Floats:
        """The probability of each arm."""
        rounds = max(1.0, float(tally.rounds[0]))
        losses = tally.columns[0]
        eta = self.eagerness * np.sqrt(8 * np.log(max(2, len(self.arms))) / rounds)
        weights = np.exp(-eta * (losses - losses.min()))
        return np.asarray(weights / weights.sum())

    def arm_plan(self, arm: Arm, request: RequestView) -> Plan:
        """The arm's plan with the cheap others as shadows; a plain step has the whole budget for its shadows."""
        budget = min(arm.budget or self.setting.budget, request.limit)
        return Plan(arm.drafter, budget, self._shadows(arm, budget))

    def _shadows(self, arm: Arm, budget: int) -> tuple[str, ...]:
        price, known = self._price, self.setting.cost.drafting
        if price is None or price.share_s is None:
            return ()
        costs = {name: price.draft(name, budget) for name in self.setting.drafters if name != arm.drafter}
        shadows, spent = [], 0.0
        for name in sorted(costs, key=lambda name: costs[name]):
            spent += costs[name]
            if spent > self.spare or (not known.measured(name) and name in self._tried):
                continue
            self._tried.add(name)  # a drafter that was never timed is tried for one request, not for all
            shadows.append(name)
        return tuple(shadows)

    def learn(self, outcome: Outcome, arm: int, price: Price) -> Columns:
        """The loss of every arm: played, foretold by a shadow, or assumed."""
        span = self.span or self.setting.budget + 1.0
        plain = self.arms[arm].drafter is None
        got = {name: self._foretold(name, count, plain) for name, count in outcome.shadows.items()}
        nodes = dict(outcome.shadow_nodes)
        if outcome.plan.drafter is not None:
            got[outcome.plan.drafter], nodes[outcome.plan.drafter] = float(outcome.accepted), outcome.proposed
        usual = sum(got.values()) / max(1, len(got))
        losses: dict[int, tuple[float]] = {}
        for other, (drafter, budget) in enumerate((a.drafter, a.budget) for a in self.arms):
            if drafter is None:
                losses[other] = (loss_of(0.0, 1.0, span),)
                continue
            cost = price.of(drafter, budget, min(nodes.get(drafter, budget), budget))
            losses[other] = (loss_of(min(got.get(drafter, usual), budget), cost, span),)
        return losses

    def _foretold(self, drafter: str, accepted: int, plain: bool) -> float:
        """What a shadow would have got; a plain step tells of its first token only, the rest is as usual. Mutates."""
        run = self._runs.get(drafter, 2.0)
        if plain:
            return run * min(accepted, 1)
        if accepted:
            self._runs[drafter] = run + 0.05 * (accepted - run)
        return float(accepted)
