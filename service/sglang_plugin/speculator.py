"""One engine's speculation without the engine: controller, drafters and cost model around each decode step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.sglang_plugin.drafting import DraftBook, Drafts
from service.sglang_plugin.request_extras import extras_of, mode_of
from service.sglang_plugin.spec_config import SpecConfig
from service.speculation.controller import Outcome, Plan, RequestView, Setting, Step, build_controller
from service.speculation.cost import CostModel
from service.speculation.drafter import Tokenizer, drafter_registry
from service.speculation.tree import ROOT, DraftTree

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req

POOL = "pool"
"""The one tenant of an engine whose requests may learn from each other."""


@dataclass(frozen=True)
class Prepared:
    """A step's drafts, one a request of the batch, and the seconds that planning and drafting took."""

    drafts: list[Drafts]
    views: list[RequestView]
    seconds: float


class Speculator:
    """Plans, drafts, trims; learns from the outcome. Raises at start for unknown names and impossible controllers.

    `budget` is the largest number of draft tokens a request and step.
    """

    def __init__(
        self, config: SpecConfig, budget: int, *, tokenizer: Tokenizer | None = None, model: str | None = None
    ) -> None:
        self._config = config
        self._budget = budget
        registry = drafter_registry()
        self.cost = CostModel()
        self.book = DraftBook(
            {name: registry.load(name) for name in config.drafters},
            budget,
            options=config.options,
            tenant=POOL if config.sharing == "pool" else None,
            tokenizer=tokenizer,
            model=model,
        )
        setting = Setting(config.drafters, budget, self.cost)
        self.controller = build_controller(config.controllers, setting, config.controller_options)

    def clear(self) -> None:
        """Forget what drafters learnt; SGLang calls this when its caches are flushed."""
        self.book.clear()

    def prepare(self, reqs: Sequence[Req]) -> Prepared:
        """The trees to verify for the batch. Mutates drafters and controller."""
        start = time.perf_counter()
        for rid in self.book.retain(reqs):
            self.controller.forget(rid)
        views = self.book.views(reqs)
        by_rid = {req.rid: req for req in reqs}
        planned = self.controller.plan(views) if views else []
        plans = {
            view.key: self._obeying(by_rid[view.key], view, plan) for view, plan in zip(views, planned, strict=True)
        }
        drafts = self.book.propose(reqs, plans)
        place = {req.rid: i for i, req in enumerate(reqs)}
        trees = [drafts[place[view.key]].tree for view in views]
        if any(len(tree) for tree in trees):
            for view, tree in zip(views, self.controller.trim(views, trees), strict=True):
                if mode_of(by_rid[view.key].sampling_params.custom_params) != "on":
                    drafts[place[view.key]].tree = tree
        return Prepared(drafts, views, time.perf_counter() - start)

    def _obeying(self, req: Req, view: RequestView, plan: Plan) -> Plan:
        """The plan as far as the request leaves the choice: it may name a drafter, and `on` is never overruled."""
        extras = extras_of(req.sampling_params.custom_params)
        wanted = extras.get("drafter")
        if wanted in self._config.drafters:
            plan = Plan(wanted, plan.budget, plan.shadows)
        if extras.get("mode") == "on" and (plan.drafter is None or plan.budget == 0):
            plan = Plan(wanted if wanted in self._config.drafters else self._config.drafters[0], view.limit)
        return Plan(plan.drafter, min(plan.budget, view.limit), plan.shadows)

    def unknown_drafter(self, req: Req) -> str | None:
        """Why a request cannot be obeyed, None when it can."""
        wanted = extras_of(req.sampling_params.custom_params).get("drafter")
        if wanted is None or wanted in self._config.drafters:
            return None
        return f"drafter {wanted!r} is not offered by this pool; it has {', '.join(self._config.drafters)}"

    def finish(
        self,
        reqs: Sequence[Req],
        prepared: Prepared,
        found: Sequence[tuple[list[int], list[int]]],
        *,
        context: int,
        verify_s: float,
    ) -> None:
        """Learn from the verified step; `found` are accepted nodes and emitted tokens. Mutates all."""
        rows = len(reqs) + sum(len(draft.tree) for draft in prepared.drafts)
        self.cost.observe(requests=len(reqs), rows=rows, context=context, verify_s=verify_s)
        drafted = {view.key for view in prepared.views}
        outcomes = tuple(
            Outcome(
                req.rid,
                draft.plan,
                len(draft.tree),
                len(path),
                {name: matched(tree, emitted) for name, tree in draft.shadows.items()},
                draft.tree,
                tuple(path),
                {name: len(tree) for name, tree in draft.shadows.items()},
            )
            for req, draft, (path, emitted) in zip(reqs, prepared.drafts, found, strict=True)
            if req.rid in drafted
        )
        self.controller.observe(Step(outcomes, rows, context, prepared.seconds, verify_s, self.book.drafter_s))


def matched(tree: DraftTree, tokens: Sequence[int]) -> int:
    """How many of the committed tokens the tree had foreseen, from the first one on."""
    children = {edge: node for node, edge in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    node = ROOT
    for depth, token in enumerate(tokens):
        child = children.get((node, token))
        if child is None:
            return depth
        node = child
    return len(tokens)
