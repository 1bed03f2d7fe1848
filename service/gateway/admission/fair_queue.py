"""Orders waiting requests so that each tenant gets its share of the tokens, however many it asks for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from service.gateway.admission.tenant import Tenant


class Waiter(Protocol):
    """Who waits: its tenant, and the tokens that it will cost."""

    tenant: Tenant

    @property
    def cost(self) -> int: ...


W = TypeVar("W", bound=Waiter)


@dataclass(eq=False, slots=True)
class _Flow(Generic[W]):
    """The waiting requests of one tenant, the oldest first; the next one starts at the virtual time `start`."""

    weight: float
    start: float = 0.0
    waiting: OrderedDict[W, None] = field(default_factory=OrderedDict)

    @property
    def pressure(self) -> float:
        return len(self.waiting) / self.weight


class FairQueue(Generic[W]):
    """Start-time fair queueing: Goyal, Vin and Cheng, https://doi.org/10.1145/248156.248171

    Virtual time is the start of who was served last. A tenant's next start is its last one plus the tokens of that
    request over the tenant's weight, and not before the virtual time: who was idle has saved nothing up. The tenant
    with the earliest start is served. Tokens count when a request is served, so that one which gives up costs nothing;
    once it is over, `correct` puts the real number in their place. Each turn looks at all tenants that wait: a heap
    would have to follow the corrections.
    """

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[W]] = {}
        self._busy: dict[str, _Flow[W]] = {}
        self._now = 0.0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, waiter: W) -> None:
        """Put it behind those of its tenant."""
        flow = self._flow(waiter.tenant)
        if not flow.waiting:
            flow.start = max(flow.start, self._now)
            self._busy[waiter.tenant.name] = flow
        flow.waiting[waiter] = None
        self._size += 1

    def discard(self, waiter: W) -> None:
        """Take out one that waits."""
        name = waiter.tenant.name
        flow = self._busy[name]
        del flow.waiting[waiter]
        self._size -= 1
        if not flow.waiting:
            del self._busy[name]

    def first(self) -> W | None:
        """Who is served next, None when nobody waits."""
        flow = min(self._busy.values(), key=_start, default=None)
        return None if flow is None else next(iter(flow.waiting))

    def serve(self, waiter: W) -> None:
        """Take out who was the `first`, at the cost of its tenant."""
        flow = self._busy[waiter.tenant.name]
        self.discard(waiter)
        self._now = flow.start
        flow.start += waiter.cost / flow.weight

    def correct(self, waiter: W, tokens: int) -> None:
        """One that was served took so many tokens more than its cost, or fewer where that is negative."""
        flow = self._flows[waiter.tenant.name]
        flow.start = max(flow.start + tokens / flow.weight, self._now)

    def surplus(self, newcomer: Tenant | None = None) -> W | None:
        """The youngest of the tenant with the most waiting requests for its weight; None when nobody waits.

        With `newcomer`, also None where one more of that tenant would be no fewer.
        """
        flow = max(self._busy.values(), key=_pressure, default=None)
        if flow is None:
            return None
        if newcomer is not None:
            own = self._flow(newcomer)
            if (len(own.waiting) + 1) / own.weight >= flow.pressure:
                return None
        return next(reversed(flow.waiting))

    def _flow(self, tenant: Tenant) -> _Flow[W]:
        flow = self._flows.get(tenant.name)
        if flow is None:
            flow = self._flows[tenant.name] = _Flow(tenant.weight)
        # Another weight after the key file was read again.
        flow.weight = tenant.weight
        return flow


def _start(flow: _Flow[W]) -> float:
    return flow.start


def _pressure(flow: _Flow[W]) -> float:
    return flow.pressure
