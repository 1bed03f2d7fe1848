"""The gate of one pool: places, queue, deadline, classes, shedding."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from service.errors import RefusedError
from service.gateway.admission.gate import Gate
from service.gateway.admission.place import Place
from service.gateway.admission.tenant import Priority, Tenant
from service.settings import AdmissionSettings
from service.telemetry.metrics import Metrics, PoolMetrics

ACME = Tenant("acme")


def make_gate(max_running: int | None = 1, **settings: Any) -> Gate:
    series = PoolMetrics(Metrics(CollectorRegistry()), model="m", pool="p", algorithm="none", draft="none")
    return Gate(AdmissionSettings(**settings), series, max_running=max_running)


def enter(gate: Gate, tenant: Tenant = ACME, cost: int = 1) -> Place:
    place = Place(gate, tenant, lambda: cost)
    gate.enter(place)
    return place


def of_class(priority: Priority) -> Tenant:
    return Tenant(priority, priority=priority)


def error_of(place: Place) -> RefusedError:
    assert place.granted is not None
    error = place.granted.exception()
    assert isinstance(error, RefusedError)
    return error


def sample(gate: Gate, name: str, **labels: str) -> float | None:
    registry = gate.series._metrics.registry
    return registry.get_sample_value(f"specserve_{name}", {"model": "m", "pool": "p", **labels})


async def test_without_a_bound_nobody_waits() -> None:
    gate = make_gate(None)
    places = [enter(gate) for _ in range(1000)]
    assert gate.running == 1000
    for place in places:
        gate.leave(place)
        gate.leave(place)
    assert gate.running == 0
    assert sample(gate, "queue_seconds_count") == 0


async def test_places_pass_on_in_order() -> None:
    gate = make_gate(2)
    places = [enter(gate) for _ in range(5)]
    assert [place.state for place in places] == ["inside"] * 2 + ["waiting"] * 3
    assert sample(gate, "requests_queued") == 3
    gate.leave(places[1])
    gate.leave(places[3])
    assert [place.state for place in places] == ["inside", "left", "inside", "left", "waiting"]
    for place in places:
        gate.leave(place)
    assert (gate.running, gate.queued, sample(gate, "requests_queued")) == (0, 0, 0)
    assert sample(gate, "queue_seconds_count") == 5


async def test_a_full_queue_refuses_at_once() -> None:
    gate = make_gate(max_queued=1)
    inside, waiting = enter(gate), enter(gate)
    with pytest.raises(RefusedError) as full:
        enter(gate)
    assert (full.value.status, full.value.code) == (429, "queue_full")
    assert int(full.value.headers["Retry-After"]) >= 1
    assert sample(gate, "requests_refused_total", reason="queue_full") == 1
    gate.leave(inside)
    assert waiting.state == "inside"


async def test_no_queue_at_all() -> None:
    gate = make_gate(max_queued=0)
    enter(gate, of_class("low"))
    with pytest.raises(RefusedError):
        enter(gate, of_class("high"))


async def test_the_wait_ends_at_its_deadline() -> None:
    gate = make_gate(queue_timeout_s=0.05)
    inside, late = enter(gate), enter(gate)
    assert late.granted is not None
    with pytest.raises(RefusedError) as timeout:
        await late.granted
    assert (timeout.value.status, timeout.value.code) == (408, "queue_timeout")
    assert gate.queued == 0
    assert late.waited is not None and 0.04 < late.waited < 0.5
    gate.leave(late)
    gate.leave(inside)
    assert gate.running == 0


async def test_higher_classes_go_first() -> None:
    gate = make_gate()
    first = enter(gate)
    low, normal, high = (enter(gate, of_class(name)) for name in ("low", "normal", "high"))
    gate.leave(first)
    for place, later in ((high, normal), (normal, low)):
        assert (place.state, later.state) == ("inside", "waiting")
        gate.leave(place)
    assert low.state == "inside"


async def test_a_full_queue_sheds_the_youngest_of_a_lower_class() -> None:
    gate = make_gate(max_queued=3)
    enter(gate)
    older, younger, high = (enter(gate, of_class(name)) for name in ("low", "low", "high"))
    normal = enter(gate, of_class("normal"))
    assert (error_of(younger).status, error_of(younger).code) == (503, "shed")
    assert [place.state for place in (older, high, normal)] == ["waiting"] * 3
    with pytest.raises(RefusedError):
        enter(gate, of_class("low"))
    gate.leave(younger)
    assert gate.queued == 3


async def test_a_flood_does_not_close_the_queue_to_other_tenants() -> None:
    gate = make_gate(max_queued=10)
    enter(gate)
    flood = [enter(gate, Tenant("flood")) for _ in range(10)]
    others = [enter(gate, Tenant("modest")) for _ in range(5)]
    assert [place.state for place in others] == ["waiting"] * 5
    assert [place.state for place in flood] == ["waiting"] * 5 + ["left"] * 5
    with pytest.raises(RefusedError):
        enter(gate, Tenant("modest"))


async def test_a_cancelled_wait_that_was_granted_gives_its_place_back() -> None:
    gate = make_gate()
    first, second, third = enter(gate), enter(gate), enter(gate)
    assert second.granted is not None
    second.granted.cancel()
    gate.leave(first)
    assert second.state == "inside"
    gate.leave(second)
    assert third.state == "inside"


@given(seed=st.integers(0, 2**32), max_running=st.integers(1, 4), max_queued=st.integers(0, 6))
def test_no_place_is_lost_under_random_cancels(seed: int, max_running: int, max_queued: int) -> None:
    """Clients of all kinds come, are served, leave early, and time out; in the end nothing is held."""
    rng = random.Random(seed)
    gate = make_gate(max_running, max_queued=max_queued, queue_timeout_s=0.004)
    served, most = 0, 0

    async def client() -> None:
        nonlocal served, most
        priority: Priority = rng.choice(("high", "normal", "low"))
        place = Place(gate, Tenant(f"{priority}{rng.randrange(3)}", priority=priority), lambda: 7)
        try:
            await asyncio.sleep(rng.random() * 0.003)
            if not gate.enter(place):
                assert place.granted is not None
                await place.granted
            assert place.state == "inside"
            most = max(most, gate.running)
            await asyncio.sleep(rng.random() * 0.003)
            served += 1
        except RefusedError:
            assert place.state != "inside"
        finally:
            gate.leave(place)

    async def everybody() -> None:
        tasks = [asyncio.create_task(client()) for _ in range(30)]
        for task in rng.sample(tasks, 10):
            await asyncio.sleep(rng.random() * 0.001)
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(everybody())
    assert (gate.running, gate.queued) == (0, 0)
    assert most <= max_running
    assert served > 0
    assert all(len(queue) == 0 for queue in gate._queues.values())
