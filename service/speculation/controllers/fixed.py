"""Fixed: one drafter, one budget, always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.speculation.controller import DraftController, Plan, RequestView, Setting


@dataclass
class Fixed(DraftController):
    """The first drafter of the pool with the whole budget for every request: the baseline."""

    setting: Setting

    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """The same plan for all, within each request's limit."""
        drafter, budget = self.setting.drafters[0], self.setting.budget
        return [Plan(drafter, min(budget, request.limit)) for request in requests]
