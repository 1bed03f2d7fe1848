"""Orders waiting requests so that each tenant gets its share of the tokens, however many it asks for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
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
    listed: bool = False

    @property
    def pressure(self) -> float:
        return len(self.waiting) / self.weight


class FairQueue(Generic[W]):
    """Start-time fair queueing: Goyal, Vin and Cheng, https://doi.org/10.1145/248156.248171

    Virtual time is the start of who was served last. A tenant's next start is its last one plus the tokens of that
    request over the tenant's weight, and not before the virtual time: who was idle has saved nothing up. The tenant
    with the earliest start is served. Tokens count when a request is served, so that one which gives up costs nothing.
    """

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[W]] = {}
        self._starts: list[tuple[float, int, _Flow[W]]] = []
        self._numbers = count()
        self._now = 0.0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, waiter: W) -> None:
        """Put it behind those of its tenant."""
        flow = self._flow(waiter.tenant)
        flow.waiting[waiter] = None
        self._size += 1
        if not flow.listed:
            flow.start = max(flow.start, self._now)
            self._list(flow)

    def discard(self, waiter: W) -> None:
        """Take out one that waits."""
        del self._flows[waiter.tenant.name].waiting[waiter]
        self._size -= 1

    def first(self) -> W | None:
        """Who is served next, None when nobody waits."""
        while self._starts:
            flow = self._starts[0][2]
            if flow.waiting:
                return next(iter(flow.waiting))
            heappop(self._starts)
            flow.listed = False
        return None

    def pop(self) -> W:
        """Take out who is served next, at the cost of its tenant. Raises IndexError when nobody waits."""
        waiter = self.first()
        if waiter is None:
            raise IndexError("nobody waits")
        self._now, _, flow = heappop(self._starts)
        flow.listed = False
        self.discard(waiter)
        flow.start = self._now + waiter.cost / flow.weight
        if flow.waiting:
            self._list(flow)
        return waiter

    def surplus(self, newcomer: Tenant | None = None) -> W | None:
        """The youngest of the tenant with the most waiting requests for its weight; None when nobody waits.

        With `newcomer`, also None where one more of that tenant would be no fewer.
        """
        flow = max(self._flows.values(), key=lambda one: one.pressure, default=None)
        if flow is None or not flow.waiting:
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

    def _list(self, flow: _Flow[W]) -> None:
        flow.listed = True
        heappush(self._starts, (flow.start, next(self._numbers), flow))
