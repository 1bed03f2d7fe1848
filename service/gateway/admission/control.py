"""Admission of requests: what their tenant may have at once, and then the gate of their pool."""

from __future__ import annotations

from functools import partial

from service.errors import RefusedError
from service.gateway.admission.estimate import estimate
from service.gateway.admission.place import Place
from service.gateway.admission.tenant import ANONYMOUS, Tenant
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.settings import AdmissionSettings
from service.telemetry.metrics import Refusal


class Admission:
    """One for all pools, in the event loop of the API.

    Per request: `enter`, `wait` when that was false, and `leave` once its end is certain, whatever happened between.
    Where nothing is limited, `enter` only counts.
    """

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._open: dict[str, int] = {}

    def place(self, prepared: Prepared, pool: ServedPool, tenant: Tenant | None) -> Place:
        """What the request will hold; nothing is taken yet."""
        return Place(pool.gate, tenant or ANONYMOUS, partial(estimate, prepared, self._settings.answer_tokens))

    def enter(self, place: Place) -> bool:
        """Take the place; false when `wait` must follow. Raises RefusedError."""
        self._count(place)
        return place.gate.enter(place)

    async def wait(self, place: Place) -> None:
        """Wait for the place. Raises RefusedError; when cancelled, `leave` gives up the wait."""
        assert place.granted is not None
        await place.granted

    def leave(self, place: Place) -> None:
        """Give everything back, the first time; returns at once."""
        place.gate.leave(place)
        if place.counted:
            place.counted = False
            self._open[place.tenant.name] -= 1

    def _count(self, place: Place) -> None:
        tenant = place.tenant
        if tenant.max_concurrent is None:
            return
        count = self._open.get(tenant.name, 0)
        if count >= tenant.max_concurrent:
            text = f"This API key has {count} requests open and may have {tenant.max_concurrent}; wait for one to end."
            raise refusal(place, "tenant_concurrency", 429, text, place.gate.retry_after_s())
        self._open[tenant.name] = count + 1
        place.counted = True


def refusal(place: Place, reason: Refusal, status: int, text: str, retry_after_s: float) -> RefusedError:
    """The error for a request that is sent away, which is counted."""
    place.gate.series.refused(reason)
    return RefusedError(text, status=status, code=reason, retry_after_s=retry_after_s)
