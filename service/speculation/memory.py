"""What drafters may remember beyond one request, kept apart for each tenant."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


class DraftMemory:
    """A bounded store of drafters' things by tenant and key; the longest unused tenant is forgotten first.

    Text that one tenant sent must not shape another tenant's drafts, so nothing here crosses tenants. A request of
    no tenant (None) gets new things that die with it. Not thread-safe: one engine's scheduler owns it.
    """

    def __init__(self, tenants: int = 64) -> None:
        if tenants < 1:
            raise ValueError(f"the memory needs room for at least one tenant, got {tenants}")
        self._limit = tenants
        self._tenants: OrderedDict[str, dict[str, object]] = OrderedDict()

    def get(self, tenant: str | None, key: str, create: Callable[[], T]) -> T:
        """The tenant's thing under `key`, created when it is not there. Things under one key are of one type."""
        if tenant is None:
            return create()
        things = self._tenants.setdefault(tenant, {})
        self._tenants.move_to_end(tenant)
        while len(self._tenants) > self._limit:
            self._tenants.popitem(last=False)
        if key not in things:
            things[key] = create()
        return cast(T, things[key])

    def clear(self) -> None:
        """Forget everything of everyone."""
        self._tenants.clear()
