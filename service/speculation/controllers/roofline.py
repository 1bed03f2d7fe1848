"""Roofline: drafts only where they pay, and only as many, by what passes cost at this load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from service.speculation.allocation import Allocation, Offer, allocate
from service.speculation.arms import bucket_of
from service.speculation.controller import DraftController, Outcome, Plan, RequestView, Setting, Step
from service.speculation.cost import Floats
from service.speculation.gains import Gains
from service.speculation.probing import Gate, Probing
from service.speculation.tree import DraftTree


@dataclass
class Roofline(DraftController):
    """Switches speculation by predicted speedup, and shrinks the inner controller's budgets to what pays.

    Speedup = expected tokens of a step / (cost of its pass, and of drafting, in plain steps of the same batch).
    Expected tokens come from what each rank of each drafter's trees brought so far, shared and by request; costs from
    live step times. Of all requests together the most worthwhile draft tokens are taken, as many as give the highest
    speedup. At each batch size (1, 2, 3-4, 5-8, ...) speculation turns on at a speedup of `on`, turns off when none is
    left and a step with drafts for all comes below `off`, and stays as it is for `dwell` steps at least; whatever the
    switch says, a step predicted to be slower than a plain one is plain. Requests that draft nothing are tried with
    small drafts now and then, ever more rarely, at a cost of at most `explore`.

    Source: EfficientRollout's system-aware toggle, methods note 4.5; hysteresis, ranks, probes and live costs are ours.

    Parameters: `on` (default 1.05), `off` (default 0.97), `dwell` steps (default 20), `explore` share of the time
    (default 0.01), `probe` draft tokens of a trial (default 3).
    """

    setting: Setting
    inner: DraftController
    on: float = 1.05
    off: float = 0.97
    dwell: int = 20
    explore: float = 0.01
    probe: int = 3
    _gates: dict[int, Gate] = field(default_factory=dict, init=False, repr=False)
    _shared: dict[str, Gains] = field(default_factory=dict, init=False, repr=False)
    _own: dict[str, dict[str, Gains]] = field(default_factory=dict, init=False, repr=False)
    _probing: Probing = field(init=False, repr=False)
    _others: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _speedup: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.off <= 1 <= self.on:
            raise ValueError(f"roofline needs off <= 1 <= on, got off {self.off} and on {self.on}")
        self._probing = Probing(self.explore, self.probe)

    @classmethod
    def for_engine(cls, setting: Setting, inner: DraftController | None = None, **options: Any) -> Self:
        """Around the controller that chooses drafters."""
        if inner is None:
            raise ValueError("controller roofline limits what another one planned: put one behind it: `roofline,ucb`")
        return cls(setting, inner, **options)

    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """The inner controller's plans, as far as they pay. Mutates both."""
        plans = self.inner.plan(requests)
        self._steps += 1
        batch = len(requests) + self._others
        context = sum(request.context for request in requests) * batch // max(1, len(requests))
        seconds = self.setting.cost.curve(batch, np.array([1.0, 2.0]) * batch, context)
        if seconds is None or not requests:
            return self._unsettled(plans)
        plain, row = float(seconds[0]), max(float(seconds[1] - seconds[0]), 1e-3 * float(seconds[0])) / batch

        def cost(rows: Floats, starts: Floats) -> Floats:
            curve = self.setting.cost.curve(batch, batch + rows, context)
            assert curve is not None
            return np.asarray((curve + starts * row) / plain)

        offers = [self._offer(request.key, plan, row) for request, plan in zip(requests, plans, strict=True)]
        allocation = allocate(offers, batch, cost)
        nodes = self._gated(allocation, batch)
        keys = [request.key for request in requests]
        for i, size in self._probing.trials(keys, nodes, offers, lambda rows, start: float(cost(rows, start)[0]) - 1):
            nodes[i] = size
        return [limited(plan, count) for plan, count in zip(plans, nodes, strict=True)]

    def _unsettled(self, plans: Sequence[Plan]) -> list[Plan]:
        """Small drafts and none in turn, until it is known what passes cost."""
        return [limited(plan, self.probe if self._steps % 2 else 0) for plan in plans]

    def _offer(self, key: str, plan: Plan, row_s: float) -> Offer:
        if plan.drafter is None or plan.budget == 0:
            return Offer(np.zeros(0), np.zeros(0))
        shared = self._shared.get(plan.drafter)
        prior = shared.expected() if shared else None
        own = self._own.get(key, {}).get(plan.drafter) or Gains(self.setting.budget)
        gains, rows = own.expected(prior)
        start = self.setting.cost.drafting.seconds(plan.drafter, plan.budget) / row_s
        return Offer(gains[: plan.budget], rows[: plan.budget], start)

    def _gated(self, allocation: Allocation, batch: int) -> list[int]:
        gate = self._gates.get(bucket_of(batch))
        if gate is None:
            gate = self._gates[bucket_of(batch)] = Gate(allocation.speedup >= 1)
        self._speedup = allocation.speedup
        paying, dear = allocation.speedup >= self.on, allocation.for_all < self.off and allocation.speedup < 1
        gate.update(paying, dear, self.dwell)
        measured = self.setting.cost.seen(requests=batch, rows=batch) >= 4
        if not gate.on or allocation.speedup < 1 or (not measured and gate.time_to_measure()):
            return [0] * len(allocation.nodes)
        return list(allocation.nodes)

    def trim(self, requests: Sequence[RequestView], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """As the inner controller trims."""
        return self.inner.trim(requests, trees)

    def observe(self, step: Step) -> None:
        """Learn what ranks brought, and let the inner controller learn. Mutates both."""
        self._others = step.requests - len(step.outcomes)
        self.setting.cost.drafting.observe(step)
        for outcome in step.outcomes:
            if outcome.plan.drafter is not None:
                self._learn(outcome, outcome.plan.drafter)
        self.inner.observe(step)

    def _learn(self, outcome: Outcome, drafter: str) -> None:
        budget = self.setting.budget
        own = self._own.setdefault(outcome.key, {}).setdefault(drafter, Gains(budget, discount=0.95))
        shared = self._shared.setdefault(drafter, Gains(budget))
        own.observe(outcome)
        shared.observe(outcome)
        if outcome.accepted:
            self._probing.praise(outcome.key)

    def forget(self, key: str) -> None:
        """Drop what is kept for the request. Mutates both controllers."""
        self._own.pop(key, None)
        self._probing.forget(key)
        self.inner.forget(key)

    def state(self) -> Mapping[str, object]:
        """The switch and its toggles by batch size, the last predicted speedup, and the inner controller's state."""
        gates = {str(1 << bucket): {"on": g.on, "toggles": g.toggles} for bucket, g in sorted(self._gates.items())}
        speedup = None if self._speedup is None else round(self._speedup, 3)
        return {"gates": gates, "predicted_speedup": speedup, "inner": self.inner.state()}


def limited(plan: Plan, nodes: int) -> Plan:
    """The plan with at most so many draft tokens; a plain step for none."""
    if plan.drafter is None:
        return plan
    return Plan(None, 0) if nodes == 0 else replace(plan, budget=min(plan.budget, nodes))
