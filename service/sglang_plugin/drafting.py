"""Which requests are drafted for, with which drafter, and how many tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.sglang_plugin.request_extras import (
    extras_of,
    mode_of,
    remaining_tokens,
    sampling_of,
    tools_of,
)
from service.speculation.controller import Plan, RequestView
from service.speculation.drafter import Drafter, DraftRequest, Sampling, Tokenizer, VerifiedRows
from service.speculation.memory import DraftMemory
from service.speculation.tree import DraftTree

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req


@dataclass
class _Entry:
    """One drafter at work for one request; `seen` output tokens were given to it."""

    drafter: Drafter
    seen: int = 0


@dataclass
class Drafts:
    """What was proposed for one request in one step; `seconds` is the time it took."""

    plan: Plan
    tree: DraftTree = field(default_factory=DraftTree)
    shadows: Mapping[str, DraftTree] = field(default_factory=dict)
    seconds: float = 0.0


class DraftBook:
    """The drafters of the running requests, made when a plan first names them.

    Requests that left the batch are forgotten, retracted ones start again. `classes` are the drafters that plans may
    name, `options` their settings; `budget` is the largest number of draft tokens a request and step; `tenant` is
    whose memory the requests use, None for nobody's. Raises what `Drafter.check` raises.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Drafter]],
        budget: int,
        *,
        options: Mapping[str, Mapping[str, object]] | None = None,
        tenant: str | None = None,
        tokenizer: Tokenizer | None = None,
        model: str | None = None,
    ) -> None:
        self._classes = dict(classes)
        self._options = options or {}
        self._budget = budget
        self._tenant = tenant
        self._tokenizer = tokenizer
        self._model = model
        self._memory = DraftMemory()
        self._entries: dict[str, dict[str, _Entry]] = {}
        self.drafter_s: Mapping[str, float] = {}
        """Seconds that each drafter took in the last step, shadows included."""
        for name, drafter in self._classes.items():
            drafter.check(self._about(), **self._options.get(name, {}))

    def clear(self) -> None:
        """Forget every drafter and all memory."""
        self._entries.clear()
        self._memory.clear()

    def views(self, reqs: Sequence[Req]) -> list[RequestView]:
        """The requests of the batch that may be drafted for in this step."""
        return [
            RequestView(req.rid, limit, len(req.output_ids), len(req.origin_input_ids) + len(req.output_ids))
            for req in reqs
            if (limit := self._limit(req)) > 0
        ]

    def _limit(self, req: Req) -> int:
        params = req.sampling_params
        if mode_of(params.custom_params) == "off":
            return 0
        wanted = extras_of(params.custom_params).get("budget")
        most = min(self._budget, wanted) if isinstance(wanted, int) else self._budget
        return min(most, remaining_tokens(req) - 1)

    def retain(self, reqs: Sequence[Req]) -> list[str]:
        """Forget the drafters of all other requests; their ids."""
        gone = self._entries.keys() - {req.rid for req in reqs}
        for rid in gone:
            del self._entries[rid]
        return list(gone)

    def propose(self, reqs: Sequence[Req], plans: Mapping[str, Plan]) -> list[Drafts]:
        """What each request's plan proposes, nothing for requests without a plan. Mutates the drafters."""
        drafts = [Drafts(plans.get(req.rid) or Plan(None, 0)) for req in reqs]
        groups: dict[str, list[int]] = {}
        spent: dict[str, float] = {}
        for i, draft in enumerate(drafts):
            if draft.plan.drafter is not None and draft.plan.budget > 0:
                groups.setdefault(draft.plan.drafter, []).append(i)
        for name, members in groups.items():
            start = time.perf_counter()
            ready = [self._ready(reqs[i], name) for i in members]
            trees = self._classes[name].propose_all(ready, [drafts[i].plan.budget for i in members])
            spent[name] = time.perf_counter() - start
            for i, tree in zip(members, trees, strict=True):
                drafts[i].tree, drafts[i].seconds = tree, spent[name] / len(members)
        for req, draft in zip(reqs, drafts, strict=True):
            if draft.plan.budget > 0:
                draft.shadows = self._shadows(req, draft.plan, spent)
        self.drafter_s = spent
        return drafts

    def _shadows(self, req: Req, plan: Plan, spent: dict[str, float]) -> dict[str, DraftTree]:
        """Proposals that are only compared with what comes. Adds to the seconds `spent`."""
        trees = {}
        for name in plan.shadows:
            if name != plan.drafter:
                start = time.perf_counter()
                trees[name] = self._ready(req, name).propose(plan.budget)
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
        return trees

    def _ready(self, req: Req, name: str) -> Drafter:
        """The request's drafter of that name, up to date with its text."""
        entries = self._entries.setdefault(req.rid, {})
        entry = entries.get(name)
        if entry is None:
            about = self._about(tools_of(req.sampling_params.custom_params), sampling_of(req))
            entry = entries[name] = _Entry(self._classes[name].for_request(about, **self._options.get(name, {})))
            entry.drafter.observe(req.origin_input_ids_unpadded)
            entry.drafter.answer_begins()
        entry.drafter.observe(req.output_ids[entry.seen :])
        entry.seen = len(req.output_ids)
        return entry.drafter

    def _about(self, tools: tuple[Mapping[str, Any], ...] = (), sampling: Sampling | None = None) -> DraftRequest:
        return DraftRequest(
            tenant=self._tenant,
            model=self._model,
            tools=tools,
            sampling=sampling,
            tokenizer=self._tokenizer,
            memory=self._memory,
        )

    def learners(self, rid: str) -> list[Drafter]:
        """The request's drafters that want the target's answers."""
        return [entry.drafter for entry in self._entries.get(rid, {}).values() if entry.drafter.learns_from > 0]

    def learn(self, rid: str, rows: VerifiedRows) -> None:
        """Give one request's verified rows to its learners. Mutates the drafters."""
        for drafter in self.learners(rid):
            drafter.learn(rows)
