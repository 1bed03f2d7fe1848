"""What the service knows of one client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = ("high", "normal", "low")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One name with its rights; several keys may bear it. What is None is not limited.

    `models` are public names or aliases. `weight` is the share of a busy pool relative to other tenants, rates are
    per minute, `max_concurrent` counts requests that wait or run.
    """

    name: str
    models: frozenset[str] | None = None
    priority: Priority = "normal"
    weight: float = 1.0
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None

    def may_use(self, *names: str) -> bool:
        """Whether a model of these names is allowed."""
        return self.models is None or not self.models.isdisjoint(names)


ANONYMOUS = Tenant("anonymous")
"""Who sends no key, or the one of `gateway.api_key`: no limits."""
