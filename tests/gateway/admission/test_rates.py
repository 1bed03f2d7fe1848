"""Requests and tokens a minute: in memory, in Redis, and while Redis is away."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from fakeredis import TcpFakeServer
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from service.errors import BadRequestError, RefusedError
from service.gateway.admission.rate_store import Window
from service.gateway.admission.rates import Rates, Reservation, _duration
from service.gateway.admission.tenant import Tenant
from service.settings import AdmissionSettings
from service.telemetry.metrics import Metrics

ACME = Tenant("acme", requests_per_minute=3, tokens_per_minute=1000)


class Clock:
    """Wall time of the memory store; it starts with a minute."""

    def __init__(self) -> None:
        self.now = 1_200_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("limits.aio.storage.memory.time", SimpleNamespace(time=clock.time))
    return clock


@pytest.fixture
def redis() -> Iterator[str]:
    with fake_redis(free_port()) as url:
        yield url


@contextmanager
def fake_redis(port: int) -> Iterator[str]:
    server = TcpFakeServer(("127.0.0.1", port), server_type="redis")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make(registry: CollectorRegistry | None = None, **settings: Any) -> Rates:
    log = structlog.get_logger()
    return Rates(AdmissionSettings(**settings), Metrics(registry or CollectorRegistry()), log)


async def take(rates: Rates, cost: int = 100, tenant: Tenant = ACME) -> Reservation:
    reservation = Reservation(tenant)
    await rates.reserve(reservation, cost, "max_tokens")
    return reservation


async def settled(rates: Rates, reservation: Reservation, used: int | None) -> None:
    rates.settle(reservation, used)
    await asyncio.gather(*rates._tasks)


def left(reservation: Reservation) -> tuple[str, str]:
    headers = reservation.headers or {}
    return headers["x-ratelimit-remaining-requests"], headers["x-ratelimit-remaining-tokens"]


async def refused(rates: Rates, cost: int = 100, tenant: Tenant = ACME) -> tuple[RefusedError, Reservation]:
    reservation = Reservation(tenant)
    with pytest.raises(RefusedError) as error:
        await rates.reserve(reservation, cost, "max_tokens")
    return error.value, reservation


async def test_nobody_is_limited_without_a_limit() -> None:
    rates = make()
    assert not rates.limit(Tenant("free"))
    assert rates.limit(ACME)
    assert make(tokens_per_minute=5).limit(Tenant("free"))


async def test_requests_are_counted_and_the_headers_tell(clock: Clock) -> None:
    rates = make()
    first = await take(rates)
    assert first.headers == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "2m0s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": "2m0s",
    }
    await take(rates)
    await take(rates)
    error, reservation = await refused(rates)
    assert (error.status, error.code, error.type) == (429, "rate_limit_exceeded", "requests")
    # The minute slides: the first of these three is forgotten as soon as the next one has begun.
    assert error.headers["Retry-After"] == "61"
    # Who was refused has taken nothing.
    assert left(reservation) == ("0", "700")
    clock.now += 60
    await refused(rates)
    clock.now += 1
    await take(rates)
    assert (await refused(rates))[0].headers["Retry-After"] == "20"


async def test_the_tokens_limit(clock: Clock) -> None:
    rates = make()
    await take(rates, 900)
    error, reservation = await refused(rates, 200)
    assert (error.code, error.type) == ("rate_limit_exceeded", "tokens")
    assert left(reservation) == ("2", "100")
    # Only the requests that ran count.
    assert left(await take(rates, 100)) == ("1", "0")


async def test_tenants_do_not_share_limits_and_keys_of_one_do(clock: Clock) -> None:
    rates = make(requests_per_minute=1)
    await take(rates, 1, Tenant("a"))
    await take(rates, 1, Tenant("b"))
    await refused(rates, 1, Tenant("a"))


async def test_another_limit_after_a_reload_counts_anew(clock: Clock) -> None:
    rates = make()
    for _ in range(3):
        await take(rates)
    await take(rates, 100, Tenant("acme", requests_per_minute=4))


async def test_more_than_a_minute_ever_has_is_a_fault_of_the_request() -> None:
    with pytest.raises(BadRequestError) as error:
        await take(make(), 1001)
    assert (error.value.status, error.value.param) == (400, "max_tokens")
    assert error.value.code == "request_exceeds_rate_limit"


async def test_unused_tokens_are_given_back(clock: Clock) -> None:
    rates = make()
    await settled(rates, await take(rates, 1000), 30)
    assert left(await take(rates, 70)) == ("1", "900")


async def test_what_nobody_knows_stays_taken(clock: Clock) -> None:
    rates = make()
    await settled(rates, await take(rates, 1000), None)
    await refused(rates, 1)


async def test_more_than_was_reserved_is_taken_as_far_as_there_is(clock: Clock) -> None:
    rates = make()
    await settled(rates, await take(rates, 100), 400)
    assert left(await take(rates, 100)) == ("1", "500")
    await settled(rates, await take(rates, 100), 5000)
    error, _ = await refused(rates, 1, Tenant("acme", tokens_per_minute=1000))
    assert error.type == "tokens"


async def test_nothing_is_given_back_into_a_later_minute(clock: Clock) -> None:
    rates = make()
    reservation = await take(rates, 1000)
    reservation.until = 0.0
    clock.now += 61
    await settled(rates, reservation, 10)
    # Else a tenant could double its rate by asking for much at the end of each minute.
    assert int(left(await take(rates, 10))[1]) < 20


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 500)), max_size=30))
def test_no_more_is_used_in_a_minute_than_allowed_whatever_is_settled(requests: list[tuple[int, int]]) -> None:
    """`used` above what was reserved is the one way over the limit, and only by that much."""

    async def everything() -> None:
        rates, total, excess = make(tokens_per_minute=1000), 0, 0
        began = time.time() // 60
        for cost, used in requests:
            try:
                reservation = await take(rates, cost, Tenant("t"))
            except RefusedError:
                continue
            await settled(rates, reservation, used)
            total, excess = total + used, excess + max(used - cost, 0)
        if time.time() // 60 == began:
            assert total <= 1000 + excess

    asyncio.run(everything())


@given(
    limit=st.integers(1, 1000),
    counted=st.integers(0, 1000),
    before=st.integers(0, 1000),
    ends=st.floats(0.01, 60),
    cost=st.integers(1, 1000),
)
def test_retry_after_is_when_it_fits_and_not_much_later(
    limit: int, counted: int, before: int, ends: float, cost: int
) -> None:
    counted, before, cost = min(counted, limit), min(before, limit), min(cost, limit)
    wait = Window(limit, 60, counted, ends, before, ends).free_in_s(cost)
    assert 0 <= wait <= 120

    def at(seconds: float) -> Window:
        if seconds < ends:
            return Window(limit, 60, counted, ends - seconds, before, ends - seconds)
        return Window(limit, 60, 0, 60, counted, max(ends + 60 - seconds, 0))

    assert at(wait + 0.01).remaining >= cost
    if wait > 0.02:
        assert at(wait - 0.02).remaining < cost


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0ms"), (0.0171, "18ms"), (1, "1s"), (59.2, "1m0s"), (62.5, "1m3s"), (120, "2m0s")]
)
def test_durations_as_openai_writes_them(seconds: float, text: str) -> None:
    assert _duration(seconds) == text


async def test_gateways_share_a_redis(redis: str) -> None:
    gateways = [make(rate_store=redis) for _ in range(2)]
    await take(gateways[0])
    await settled(gateways[1], await take(gateways[1], 800), 300)
    third = await take(gateways[0], 100)
    assert left(third) == ("0", "500")
    error, _ = await refused(gateways[1])
    assert error.type == "requests"
    assert 60 <= int(error.headers["Retry-After"]) <= 120
    for gateway in gateways:
        await gateway.close()


@pytest.fixture
def deaf() -> Iterator[str]:
    """Takes connections and answers nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


def url_of(kind: str, deaf: str) -> str:
    return deaf if kind == "deaf" else f"redis://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("kind", ["deaf", "gone"])
async def test_without_redis_each_gateway_counts_by_itself(kind: str, deaf: str) -> None:
    registry = CollectorRegistry()
    rates = make(registry, rate_store=url_of(kind, deaf), rate_store_timeout_s=0.1)
    began = time.monotonic()
    for _ in range(3):
        await take(rates)
    await refused(rates)
    # The first one waited, the others did not.
    assert time.monotonic() - began < 1
    assert registry.get_sample_value("specserve_rate_store_errors_total") == 4
    await rates.close()


@pytest.mark.parametrize("kind", ["deaf", "gone"])
async def test_without_redis_nothing_is_limited_where_that_is_set(kind: str, deaf: str) -> None:
    rates = make(rate_store=url_of(kind, deaf), rate_store_timeout_s=0.1, rate_store_away="allow")
    assert [(await take(rates)).headers for _ in range(5)] == [None] * 5
    await rates.close()


@pytest.mark.parametrize("kind", ["deaf", "gone"])
async def test_without_redis_all_are_refused_where_that_is_set(kind: str, deaf: str) -> None:
    rates = make(rate_store=url_of(kind, deaf), rate_store_timeout_s=0.1, rate_store_away="refuse")
    error, _ = await refused(rates)
    assert (error.status, error.code, error.type) == (503, "rate_store_away", "server_error")
    assert error.headers["Retry-After"] == "1"
    await rates.close()


async def test_a_redis_that_comes_back_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.gateway.admission.rate_store._AWAY_S", 0.1)
    port = free_port()
    rates = make(rate_store=f"redis://127.0.0.1:{port}/0", rate_store_timeout_s=0.5)
    with fake_redis(port):
        await take(rates)
    reservation = await take(rates)
    assert left(reservation) == ("2", "900")
    await settled(rates, reservation, 1)
    with fake_redis(port):
        await asyncio.sleep(0.15)
        assert left(await take(rates)) == ("2", "900")
    await rates.close()


@pytest.mark.parametrize("url", ["", "memory", "http://x:1", "redis://", "redis:///0", "redis-cluster://x"])
def test_other_stores_are_refused_without_showing_the_url(url: str) -> None:
    with pytest.raises(ValidationError, match="like redis://host:6379/0"):
        AdmissionSettings(rate_store=url)
    hidden = AdmissionSettings(rate_store="redis://:s3cret@x")
    assert "s3cret" not in repr(hidden) + hidden.model_dump_json()
