"""Engines without an engine: requests whose drafts are accepted by chance, on a machine whose passes have a price."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.speculation.controller import DraftController, Outcome, Plan, RequestView, Setting, Step
from service.speculation.cost import CostModel
from service.speculation.tree import DraftTree
from tests.speculation.controllers.machine import CPU, Machine


@dataclass(frozen=True)
class Habit:
    """A drafter on one kind of text: how often it proposes, the chance of each further token, seconds a proposal."""

    proposes: float
    accepts: float
    seconds: float = 0.0


Text = Mapping[str, Habit]


@dataclass
class World:
    """Steps a batch of requests, each with its own kind of text, and counts tokens and seconds."""

    controller: DraftController
    cost: CostModel
    machine: Machine = field(default_factory=lambda: Machine(CPU))
    honest: bool = True
    seed: int = 0
    tokens: int = 0
    seconds: float = 0.0
    nodes: int = 0

    def __post_init__(self) -> None:
        self.generator = random.Random(self.seed)

    def step(self, texts: Mapping[str, Text], budget: int, generated: int = 20) -> tuple[int, float]:
        """One decode step of these requests; tokens and seconds."""
        views = [RequestView(key, budget, generated, 300) for key in texts]
        plans = self.controller.plan(views)
        trees = [self.tree(texts[view.key], plan) for view, plan in zip(views, plans, strict=True)]
        trees = self.controller.trim(views, trees)
        outcomes = tuple(self.verify(v.key, texts[v.key], p, t) for v, p, t in zip(views, plans, trees, strict=True))
        rows, context = len(views) + sum(map(len, trees)), 300 * len(views)
        verify_s = self.machine.seconds(rows, self.generator)
        drafter_s: dict[str, float] = {}
        for outcome in outcomes:
            for name in [*outcome.plan.shadows, *([outcome.plan.drafter] if outcome.plan.drafter else [])]:
                drafter_s[name] = drafter_s.get(name, 0.0) + texts[outcome.key][name].seconds
        self.cost.observe(requests=len(views), rows=rows, context=context, verify_s=verify_s)
        draft_s = sum(drafter_s.values())
        self.controller.observe(Step(outcomes, rows, context, draft_s, verify_s, drafter_s))
        tokens = sum(outcome.accepted + 1 for outcome in outcomes)
        self.tokens, self.seconds, self.nodes = (
            self.tokens + tokens,
            self.seconds + verify_s + draft_s,
            self.nodes + rows - len(views),
        )
        return tokens, verify_s + draft_s

    def tree(self, text: Text, plan: Plan) -> DraftTree:
        """A chain of the planned length, or nothing where the drafter finds nothing."""
        if plan.drafter is None or plan.budget == 0 or self.generator.random() >= text[plan.drafter].proposes:
            return DraftTree()
        confidence = text[plan.drafter].accepts if self.honest else 0.9
        return DraftTree.chain(range(plan.budget), confidence, plan.drafter)

    def verify(self, key: str, text: Text, plan: Plan, tree: DraftTree) -> Outcome:
        """What the target accepts of it, and of the shadows as far as the committed text tells."""
        accepted = self.length(text[plan.drafter].accepts, len(tree)) if plan.drafter else 0
        shadows = {
            name: min(accepted + 1, self.length(text[name].accepts, plan.budget))
            for name in plan.shadows
            if self.generator.random() < text[name].proposes
        }
        sizes = {name: plan.budget if name in shadows else 0 for name in plan.shadows}
        path = tuple(range(accepted))
        return Outcome(key, plan, len(tree), accepted, {**dict.fromkeys(plan.shadows, 0), **shadows}, tree, path, sizes)

    def length(self, chance: float, most: int) -> int:
        """How many of `most` tokens in a row are accepted."""
        return next((i for i in range(most) if self.generator.random() >= chance), most)


def setting(drafters: Sequence[str], budget: int = 11, seed: int = 0) -> Setting:
    """A setting with a cost model of its own."""
    return Setting(tuple(drafters), budget, CostModel(), seed)


def expected_rate(habit: Habit, batch: int, budget: int, machine: Machine) -> float:
    """Tokens per plain step's cost when all requests of the batch draft `budget` tokens with this habit."""
    gain = sum(habit.accepts**depth for depth in range(1, budget + 1))
    plain = machine.cost(batch)
    # Whether a request proposes is drawn for each; the mean of the table over that is close to the table of the mean.
    pass_cost = machine.cost(batch * (1 + habit.proposes * budget)) / plain
    return (1 + habit.proposes * gain) / (pass_cost + batch * habit.seconds / (plain * machine.unit))
