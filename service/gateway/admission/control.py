"""Admission of requests: what their tenant may have at once and in a minute, and then the gate of their pool."""

from __future__ import annotations

from functools import partial

from structlog.typing import FilteringBoundLogger

from service.errors import RefusedError
from service.gateway.admission.estimate import BUDGETS, estimate
from service.gateway.admission.place import Place
from service.gateway.admission.rates import Rates, Reservation
from service.gateway.admission.tenant import ANONYMOUS, Tenant
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.settings import AdmissionSettings
from service.telemetry.metrics import Metrics, Refusal

_RATES: dict[str, Refusal] = {"requests": "request_rate", "tokens": "token_rate"}


class Admission:
    """One for all pools, in the event loop of the API.

    Per request: `enter`, `wait` when that was false, and `leave` once its end is certain, whatever happened between.
    Where nothing is limited, `enter` only counts.
    """

    def __init__(self, settings: AdmissionSettings, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._rates = Rates(settings, metrics, log)
        self._open: dict[str, int] = {}

    def place(self, prepared: Prepared, pool: ServedPool, tenant: Tenant | None) -> Place:
        """What the request will hold; nothing is taken yet."""
        return Place(pool.gate, tenant or ANONYMOUS, partial(estimate, prepared, self._settings.answer_tokens))

    def enter(self, place: Place) -> bool:
        """Take the place; false when `wait` must follow. Raises RefusedError."""
        self._count(place)
        if self._rates.limit(place.tenant):
            place.reserved = Reservation(place.tenant)
            return False
        return place.gate.enter(place)

    async def wait(self, place: Place, prepared: Prepared) -> None:
        """Wait for the place. Raises RefusedError or BadRequestError; when cancelled, `leave` gives up the wait."""
        if place.reserved is not None:
            await self._reserve(place.reserved, place, prepared)
            if place.gate.enter(place):
                return
        assert place.granted is not None
        await place.granted

    def leave(self, place: Place, used: int | None) -> None:
        """Give everything back, the first time; returns at once. `used` are the request's real tokens, if known."""
        reserved, place.reserved = place.reserved, None
        if reserved is not None:
            self._rates.settle(reserved, used if place.state == "inside" else 0)
        place.gate.leave(place, used)
        if place.counted:
            place.counted = False
            self._open[place.tenant.name] -= 1

    async def close(self) -> None:
        """Finish what is being counted, in the loop that served the requests."""
        await self._rates.close()

    async def _reserve(self, reserved: Reservation, place: Place, prepared: Prepared) -> None:
        body = prepared.body
        named = next((name for name in BUDGETS if body.get(name) is not None), prepared.prompt_field)
        try:
            await self._rates.reserve(reserved, place.cost, named)
        except RefusedError as error:
            place.gate.series.refused(_RATES.get(error.type, "rate_store_away"))
            raise

    def _count(self, place: Place) -> None:
        tenant = place.tenant
        if tenant.max_concurrent is None:
            return
        count = self._open.get(tenant.name, 0)
        if count >= tenant.max_concurrent:
            text = f"This API key has {count} requests open and may have {tenant.max_concurrent}; wait for one to end."
            place.gate.series.refused("tenant_concurrency")
            raise RefusedError(text, status=429, code="tenant_concurrency", retry_after_s=place.gate.retry_after_s())
        self._open[tenant.name] = count + 1
        place.counted = True
