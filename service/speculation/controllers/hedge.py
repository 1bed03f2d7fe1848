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
    round's loss is 1 - (tokens per cost) / `span`, cut to [0, 1]. A drafter that was not asked is taken to be as good
    as the average of those that were. Not for drafters that run a model: their proposals cost too much to throw away.

    Source: Hedge of Freund and Schapire; for drafters "Not-a-Bandit", arXiv 2510.20064. The cost is ours.

    Parameters: `shares`, `off`, `discount`, `prior` as for `ucb`; `span` and `eagerness` as for `exp3`; `spare` share
    of a plain step that the shadows of one request may take (default 0.02).
    """

    prior: float = 8.0
    span: float = 6.0
    eagerness: float = 4.0
    spare: float = 0.02
    _draw: random.Random = field(init=False, repr=False)
    _price: Price | None = field(default=None, init=False, repr=False)

    columns: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draw = random.Random(self.setting.seed)

    def pick(self, requests: Sequence[RequestView], known: Sequence[Tally], price: Price) -> list[int]:
        """An arm for each request, drawn."""
        del requests
        self._price = price
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
        shadows, spent = [], 0.0
        for name in sorted(self.setting.drafters, key=lambda name: self._cost(name, budget)):
            spent += self._cost(name, budget)
            if name != arm.drafter and spent <= self.spare:
                shadows.append(name)
        return Plan(arm.drafter, budget, tuple(shadows))

    def _cost(self, drafter: str, budget: int) -> float:
        return self._price.draft(drafter, budget) if self._price else 0.0

    def learn(self, outcome: Outcome, arm: int, price: Price) -> Columns:
        """The loss of every arm: played, foretold by a shadow, or assumed."""
        span = self.span or self.setting.budget + 1.0
        losses: dict[int, float] = {}
        for other, (drafter, budget) in enumerate((a.drafter, a.budget) for a in self.arms):
            if other == arm:
                cost = price.of(drafter, outcome.plan.budget, outcome.proposed)
                losses[other] = loss_of(outcome.accepted, cost, span)
            elif drafter is None:
                losses[other] = loss_of(0, 1.0, span)
            elif drafter in outcome.shadows:
                # A plain step commits one token, so it can tell of the first draft token only.
                most = 1 if self.arms[arm].drafter is None else budget
                nodes = min(outcome.shadow_nodes.get(drafter, budget), most)
                losses[other] = loss_of(min(outcome.shadows[drafter], budget), price.of(drafter, budget, nodes), span)
        assumed = sum(losses.values()) / len(losses)
        return {other: (losses.get(other, assumed),) for other in range(len(self.arms))}
