"""What bandit controllers choose from, and what they remember of each choice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from service.speculation.controller import DraftController, Outcome, Plan, RequestView, Setting, Step
from service.speculation.price import Floats, Price, price_of

Columns = Mapping[int, Sequence[float]]
"""One value a column of a tally, by arm."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One choice: a drafter with a budget; drafter None is a plain step."""

    drafter: str | None
    budget: int

    def __str__(self) -> str:
        return "off" if self.drafter is None else f"{self.drafter}@{self.budget}"


def arms_of(setting: Setting, shares: Sequence[float], off: bool) -> tuple[Arm, ...]:
    """Every drafter with every share of the budget, and the plain step if `off`. Raises ValueError without shares."""
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"budget shares must lie in (0, 1], got {tuple(shares)}")
    arms = [Arm(name, max(1, round(setting.budget * share))) for name in setting.drafters for share in shares]
    return tuple(dict.fromkeys(arms)) + ((Arm(None, 0),) if off else ())


@dataclass(slots=True)
class Tally:
    """Discounted sums by arm: rounds, and whatever a controller adds up in `columns`."""

    rounds: Floats
    columns: Floats

    @classmethod
    def empty(cls, arms: int, columns: int) -> Tally:
        """Nothing seen yet."""
        return cls(np.zeros(arms), np.zeros((columns, arms)))

    def add(self, arm: int, values: Sequence[float], discount: float) -> None:
        """One round of one arm; what was known of that arm is discounted. Mutates."""
        self.rounds[arm] = self.rounds[arm] * discount + 1
        self.columns[:, arm] = self.columns[:, arm] * discount + values

    def capped(self, rounds: float) -> Tally:
        """The same means as if from at most `rounds` rounds an arm."""
        share = np.minimum(1.0, rounds / np.maximum(self.rounds, 1e-9))
        return Tally(self.rounds * share, self.columns * share)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.rounds + other.rounds, self.columns + other.columns)


@dataclass
class ArmController(DraftController):
    """Base of controllers that choose an arm a request and round.

    What all requests of about the same batch size showed is the prior of each request, worth at most `prior` rounds an
    arm, so that a request shorter than the number of arms profits too; its own rounds soon outweigh it.
    """

    setting: Setting
    shares: tuple[float, ...] = (1.0,)
    off: bool = True
    discount: float = 0.98
    prior: float = 8.0
    shared_discount: float = 0.995
    arms: tuple[Arm, ...] = field(init=False)
    _own: dict[str, Tally] = field(default_factory=dict, init=False, repr=False)
    _shared: dict[int, Tally] = field(default_factory=dict, init=False, repr=False)
    _chosen: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _pulls: np.ndarray = field(init=False, repr=False)
    _others: int = field(default=0, init=False)
    _nodes: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)

    columns: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 0 < self.discount <= 1 or not 0 < self.shared_discount <= 1:
            raise ValueError("discounts must lie in (0, 1]")
        self.arms = arms_of(self.setting, self.shares, self.off)
        self._pulls = np.zeros(len(self.arms), dtype=int)

    @abstractmethod
    def pick(self, requests: Sequence[RequestView], known: Sequence[Tally], price: Price) -> list[int]:
        """An arm for each request, given the tally of each, shared prior included."""

    @abstractmethod
    def learn(self, outcome: Outcome, arm: int, price: Price) -> Columns:
        """What an outcome of `arm` says: the values of each arm that it says something about."""

    def arm_plan(self, arm: Arm, request: RequestView) -> Plan:
        """The plan that plays an arm."""
        return Plan(arm.drafter, min(arm.budget, request.limit))

    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """One arm a request. Mutates the controller."""
        batch = len(requests) + self._others
        prior = self.prior_at(bucket_of(batch))
        empty = Tally.empty(len(self.arms), self.columns)
        known = [self._own.get(request.key, empty) + prior for request in requests]
        context = sum(request.context for request in requests) * batch // max(1, len(requests))
        price = price_of(self.setting, batch, self._nodes, context)
        self._steps += 1
        if price.share_s is None and self._steps % 2 == 0:  # the cost model has to see passes of different widths
            self._chosen.clear()
            return [Plan(None, 0) for _ in requests]
        chosen = self.pick(requests, known, price)
        self._chosen.update({request.key: arm for request, arm in zip(requests, chosen, strict=True)})
        return [self.arm_plan(self.arms[arm], request) for request, arm in zip(requests, chosen, strict=True)]

    def observe(self, step: Step) -> None:
        """Credit the arms that were played. Mutates the controller."""
        self.setting.cost.drafting.observe(step)
        self._others, self._nodes = step.requests - len(step.outcomes), step.rows - step.requests
        price = price_of(self.setting, step.requests, self._nodes, step.context)
        bucket = bucket_of(step.requests)
        shared = self._shared.setdefault(bucket, Tally.empty(len(self.arms), self.columns))
        for outcome in step.outcomes:
            arm = self._chosen.get(outcome.key)
            # A wrapper or the request itself may have overruled the arm: then the round says nothing about it.
            if arm is None or self.arms[arm].drafter != outcome.plan.drafter:
                continue
            self._pulls[arm] += 1
            own = self._own.setdefault(outcome.key, Tally.empty(len(self.arms), self.columns))
            for about, values in self.learn(outcome, arm, price).items():
                own.add(about, values, self.discount)
                shared.add(about, values, self.shared_discount)

    def forget(self, key: str) -> None:
        """Drop the request's own tally; the shared one keeps what it showed. Mutates."""
        self._own.pop(key, None)
        self._chosen.pop(key, None)

    def prior_at(self, bucket: int) -> Tally:
        """What is known at this batch size, or for arms never played there at the nearest size."""
        found = Tally.empty(len(self.arms), self.columns)
        for near in sorted(self._shared, key=lambda other: abs(other - bucket)):
            tally = self._shared[near]
            missing = found.rounds == 0
            found.rounds[missing], found.columns[:, missing] = tally.rounds[missing], tally.columns[:, missing]
        return found.capped(self.prior)

    def state(self) -> Mapping[str, object]:
        """Pulls by arm, and the rounds that each batch size (its upper end) remembers."""
        return {
            "pulls": {str(arm): int(pulls) for arm, pulls in zip(self.arms, self._pulls, strict=True)},
            "rounds": {str(1 << bucket): round(float(t.rounds.sum()), 1) for bucket, t in self._shared.items()},
        }


def bucket_of(batch: int) -> int:
    """Batch sizes that share what they learn: 1, 2, 3-4, 5-8, ..."""
    return max(0, batch - 1).bit_length()
