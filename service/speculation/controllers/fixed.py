"""Fixed: one drafter, one budget, always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.speculation.controller import DraftController, Plan, RequestView, Setting, Step


@dataclass
class Fixed(DraftController):
    """One drafter with one budget for every request: the baseline. Not for crowds: it drafts whatever that costs.

    Parameters: `drafter` (default the pool's first); `share` of the pool's budget (default 1).
    """

    setting: Setting
    drafter: str | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.drafter is not None and self.drafter not in self.setting.drafters:
            raise ValueError(f"drafter {self.drafter!r} is not among {', '.join(self.setting.drafters)}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """The same plan for all, within each request's limit."""
        drafter, budget = self.drafter or self.setting.drafters[0], max(1, round(self.setting.budget * self.share))
        return [Plan(drafter, min(budget, request.limit)) for request in requests]

    def observe(self, step: Step) -> None:
        """Remember what drafting took, for a wrapper that asks. Mutates the shared costs."""
        self.setting.cost.drafting.observe(step)

    def state(self) -> Mapping[str, object]:
        """Drafter and budget."""
        return {"drafter": self.drafter or self.setting.drafters[0], "share": self.share}
