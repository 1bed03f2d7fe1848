"""Requests and tokens a minute, per tenant: reserved before a request runs, settled when its real use is known."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, get_args

from limits import RateLimitItem, RateLimitItemPerMinute
from structlog.typing import FilteringBoundLogger

from service.errors import BadRequestError, RefusedError
from service.gateway.admission.rate_store import RateStore, StoreAwayError, Window
from service.gateway.admission.tenant import Tenant
from service.settings import AdmissionSettings
from service.telemetry.metrics import Metrics

Unit = Literal["requests", "tokens"]
UNITS: tuple[Unit, ...] = get_args(Unit)

# Given back this close to the end of a minute, tokens might be taken off the next one.
_MARGIN_S = 0.1


@dataclass(slots=True)
class Reservation:
    """What one request has taken. `until` is the loop's time up to which tokens can be given back."""

    tenant: Tenant
    tokens: int = 0
    item: RateLimitItem | None = None
    store: RateStore | None = None
    until: float = 0.0
    headers: dict[str, str] | None = None


class Rates:
    """The limits of all tenants. `reserve` waits for the store only, `settle` returns at once.

    A minute slides: what was taken in the one before counts for the part of it that is not past.
    """

    def __init__(self, settings: AdmissionSettings, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._everybody = settings.requests_per_minute is not None or settings.tokens_per_minute is not None
        self._errors = metrics.rate_store_errors.labels()
        self._log = log
        url = settings.rate_store
        self._own = RateStore()
        self._store = self._own
        if url is not None:
            self._store = RateStore(url.get_secret_value(), timeout_s=settings.rate_store_timeout_s)
        self._away = False
        self._tasks: set[asyncio.Task[None]] = set()

    def limit(self, tenant: Tenant) -> bool:
        """Whether there is anything to reserve for this tenant."""
        return self._everybody or tenant.requests_per_minute is not None or tenant.tokens_per_minute is not None

    async def reserve(self, reservation: Reservation, cost: int, param: str) -> None:
        """Take one request and `cost` tokens; `reservation.headers` tell what is left, also of a refused request.

        Raises RefusedError, and BadRequestError, naming `param`, for more tokens than the tenant ever has in a minute.
        """
        store = self._store
        try:
            store.expect()
            await self._reserve(store, reservation, cost, param)
            self._back()
        except StoreAwayError as away:
            self._missed(away)
            if self._settings.rate_store_away == "refuse":
                text = "The service cannot count requests now; try again shortly."
                raise RefusedError(text, status=503, code="rate_store_away", retry_after_s=1) from away
            if self._settings.rate_store_away == "local":
                await self._reserve(self._own, reservation, cost, param)

    def settle(self, reservation: Reservation, used: int | None) -> None:
        """Correct the reservation by the tokens that were used; None: nobody knows, so that it stands."""
        if reservation.store is None or used is None or used == reservation.tokens:
            return
        self._spawn(self._settle(reservation.store, reservation, used - reservation.tokens))

    async def close(self) -> None:
        """Finish what is being settled and close the store."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    async def _reserve(self, store: RateStore, reservation: Reservation, cost: int, param: str) -> None:
        name = reservation.tenant.name
        wanted = self._wanted(reservation.tenant, cost)
        for unit, (item, amount) in wanted.items():
            if amount > item.amount:
                raise _never(unit, item.amount, amount, param)
        granted = await asyncio.gather(*(store.take(item, name, amount) for item, amount in wanted.values()))
        short = next((unit for unit, had in zip(wanted, granted, strict=True) if not had), None)
        if short is not None:
            taken = [want for want, had in zip(wanted.values(), granted, strict=True) if had]
            await asyncio.gather(*(store.take(item, name, -amount) for item, amount in taken))
        windows = await asyncio.gather(*(store.window(item, name) for item, _ in wanted.values()))
        now = dict(zip(wanted, windows, strict=True))
        reservation.headers = _headers(now)
        if short is not None:
            raise _exceeded(short, now[short], wanted[short][1])
        if "tokens" in wanted:
            reservation.item, reservation.tokens = wanted["tokens"]
            reservation.store = store
            reservation.until = asyncio.get_running_loop().time() + now["tokens"].ends_s - _MARGIN_S

    def _wanted(self, tenant: Tenant, cost: int) -> dict[Unit, tuple[RateLimitItem, int]]:
        own, wanted = self._settings, dict[Unit, tuple[RateLimitItem, int]]()
        if most := tenant.requests_per_minute or own.requests_per_minute:
            wanted["requests"] = RateLimitItemPerMinute(most, namespace="requests"), 1
        if most := tenant.tokens_per_minute or own.tokens_per_minute:
            wanted["tokens"] = RateLimitItemPerMinute(most, namespace="tokens"), cost
        return wanted

    async def _settle(self, store: RateStore, reservation: Reservation, more: int) -> None:
        """What was reserved in a minute that is over fades with it: giving it back now would be a gift."""
        assert reservation.item is not None
        item, name = reservation.item, reservation.tenant.name
        if more < 0 and asyncio.get_running_loop().time() >= reservation.until:
            return
        try:
            if store.away:
                raise StoreAwayError("it did not answer a moment ago")
            if not await store.take(item, name, more):
                # More was used than is left: then nothing is.
                await store.take(item, name, (await store.window(item, name)).remaining)
        except StoreAwayError as away:
            self._missed(away)

    def _missed(self, away: StoreAwayError) -> None:
        self._errors.inc()
        if not self._away:
            self._away = True
            self._log.warning("rate limits: store away", reason=str(away), meanwhile=self._settings.rate_store_away)

    def _back(self) -> None:
        if self._away:
            self._away = False
            self._log.info("rate limits: store back")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _never(unit: Unit, limit: int, cost: int, param: str) -> BadRequestError:
    return BadRequestError(
        f"The request may take about {cost} {unit}, and this API key has {limit} a minute: ask for fewer.",
        param=param,
        code="request_exceeds_rate_limit",
    )


def _exceeded(unit: Unit, window: Window, cost: int) -> RefusedError:
    error = RefusedError(
        f"Rate limit reached: {window.limit} {unit} a minute, {window.remaining} left, {cost} needed.",
        status=429,
        code="rate_limit_exceeded",
        retry_after_s=window.free_in_s(cost),
    )
    error.type = unit
    return error


def _headers(windows: dict[Unit, Window]) -> dict[str, str]:
    """As OpenAI names and writes them."""
    headers = {}
    for unit, window in windows.items():
        headers[f"x-ratelimit-limit-{unit}"] = str(window.limit)
        headers[f"x-ratelimit-remaining-{unit}"] = str(window.remaining)
        headers[f"x-ratelimit-reset-{unit}"] = _duration(window.reset_s)
    return headers


def _duration(seconds: float) -> str:
    """`17ms`, `5s`, `1m3s`."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
