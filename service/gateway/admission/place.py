"""What one request holds from its admission until the backend works no more for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from service.gateway.admission.tenant import Tenant

if TYPE_CHECKING:
    from service.gateway.admission.gate import Gate
    from service.gateway.admission.rates import Reservation

State = Literal["outside", "waiting", "inside", "left"]


class Place:
    """One request at one gate, from `outside` over `waiting` and `inside` to `left`; only the gate moves it.

    `reckon` gives the tokens that it is reckoned with; `cost` asks once, and only where that matters. `waited` are the
    seconds that it stood in the queue, None when it never did. `granted` is done when the wait is over, and holds an
    error when it was in vain. `counted`: it is among the open requests of its tenant. `reserved` is what it has taken
    of its tenant's rates, None where nothing limits them; `held` are tokens of the pool's KV caches.
    """

    __slots__ = (
        "_cost",
        "_reckon",
        "counted",
        "gate",
        "granted",
        "held",
        "reserved",
        "since",
        "state",
        "tenant",
        "timer",
        "waited",
    )

    def __init__(self, gate: Gate, tenant: Tenant, reckon: Callable[[], int]) -> None:
        self.gate = gate
        self.tenant = tenant
        self._reckon = reckon
        self._cost: int | None = None
        self.counted = False
        self.reserved: Reservation | None = None
        self.state: State = "outside"
        self.granted: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.since = 0.0
        self.held = 0
        self.waited: float | None = None

    @property
    def cost(self) -> int:
        """Tokens of prompt and answer, by estimate."""
        if self._cost is None:
            self._cost = self._reckon()
        return self._cost
