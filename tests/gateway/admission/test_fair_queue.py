"""Shares of tenants in the queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.gateway.admission.fair_queue import FairQueue
from service.gateway.admission.tenant import Tenant


@dataclass(eq=False)
class Request:
    tenant: Tenant
    cost: int = 100


def fill(queue: FairQueue[Request], tenant: Tenant, *costs: int) -> list[Request]:
    requests = [Request(tenant, cost) for cost in costs]
    for request in requests:
        queue.add(request)
    return requests


def pop(queue: FairQueue[Request]) -> Request:
    request = queue.first()
    assert request is not None
    queue.serve(request)
    return request


def jain(shares: list[float]) -> float:
    """1 for equal shares, 1/n where one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


COSTS = st.lists(st.integers(1, 4000), min_size=400, max_size=400)


@given(weights=st.tuples(st.floats(0.25, 8), st.floats(0.25, 8)), costs=st.tuples(COSTS, COSTS))
def test_two_tenants_share_tokens_by_weight_whatever_they_ask_for(
    weights: tuple[float, float], costs: tuple[list[int], list[int]]
) -> None:
    queue: FairQueue[Request] = FairQueue()
    tenants = [Tenant(name, weight=weight) for name, weight in zip("ab", weights, strict=True)]
    for tenant, own in zip(tenants, costs, strict=True):
        fill(queue, tenant, *own)
    waiting, served = Counter(a=400, b=400), Counter[str]()
    while min(waiting.values()):
        request = pop(queue)
        waiting[request.tenant.name] -= 1
        served[request.tenant.name] += request.cost
    shares = [served[tenant.name] / tenant.weight for tenant in tenants]
    # The bound of the scheme: nobody is ahead by more than one largest request of each.
    assert abs(shares[0] - shares[1]) <= 4000 / weights[0] + 4000 / weights[1]
    if min(shares) > 40 * 4000 / min(weights):
        assert jain(shares) > 0.95


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_fairness_under_saturation(weight: float) -> None:
    """One tenant sends ten times as many requests, each four times as large."""
    queue: FairQueue[Request] = FairQueue()
    flood, modest = Tenant("flood"), Tenant("modest", weight=weight)
    served = Counter[str]()
    for turn in range(4000):
        fill(queue, flood, *[800] * 10)
        # As many as its share, so that both always wait.
        fill(queue, modest, *[200] * (turn < 50 or 4 * int(weight)))
        request = pop(queue)
        served[request.tenant.name] += request.cost
    assert jain([served["flood"], served["modest"] / weight]) > 0.999


def test_requests_of_a_tenant_keep_their_order() -> None:
    queue: FairQueue[Request] = FairQueue()
    requests = fill(queue, Tenant("a"), 900, 1, 50)
    assert [pop(queue) for _ in requests] == requests
    assert queue.first() is None


def test_who_was_idle_has_saved_nothing_up() -> None:
    queue: FairQueue[Request] = FairQueue()
    busy, idle = Tenant("busy"), Tenant("idle")
    fill(queue, busy, *[100] * 200)
    for _ in range(100):
        pop(queue)
    fill(queue, idle, *[100] * 100)
    served = Counter(pop(queue).tenant.name for _ in range(100))
    assert abs(served["busy"] - served["idle"]) <= 1


def test_who_gave_up_costs_its_tenant_nothing() -> None:
    queue: FairQueue[Request] = FairQueue()
    patient, fickle = Tenant("patient"), Tenant("fickle")
    for request in fill(queue, fickle, *[4000] * 50):
        queue.discard(request)
    assert queue.first() is None
    fill(queue, patient, *[100] * 100)
    fill(queue, fickle, *[100] * 100)
    served = Counter(pop(queue).tenant.name for _ in range(100))
    assert abs(served["patient"] - served["fickle"]) <= 1


def test_real_use_takes_the_place_of_the_estimate() -> None:
    """One tenant asks for forty times what its answers take, as clients do that always send the model's maximum."""
    queue: FairQueue[Request] = FairQueue()
    careful, lavish = Tenant("careful"), Tenant("lavish")
    fill(queue, careful, *[100] * 400)
    fill(queue, lavish, *[4000] * 400)
    served = Counter[str]()
    for _ in range(200):
        request = pop(queue)
        served[request.tenant.name] += 1
        queue.correct(request, 100 - request.cost)
    assert jain([served["careful"], served["lavish"]]) > 0.999


def test_a_correction_lets_nobody_start_before_the_others() -> None:
    queue: FairQueue[Request] = FairQueue()
    busy, late = Tenant("busy"), Tenant("late")
    (early,) = fill(queue, late, 10)
    pop(queue)
    fill(queue, busy, *[100] * 200)
    for _ in range(100):
        pop(queue)
    queue.correct(early, -(10**9))
    fill(queue, late, *[100] * 100)
    served = Counter(pop(queue).tenant.name for _ in range(100))
    assert abs(served["busy"] - served["late"]) <= 1


def test_the_surplus_is_of_who_waits_with_most_for_its_weight() -> None:
    queue: FairQueue[Request] = FairQueue()
    heavy, light = Tenant("heavy", weight=10), Tenant("light")
    fill(queue, heavy, *[1] * 5)
    youngest = fill(queue, light, 1, 1)[-1]
    assert queue.surplus() is youngest
    assert queue.surplus(Tenant("new")) is youngest
    assert queue.surplus(light) is None
    queue.discard(youngest)
    assert queue.surplus(Tenant("new")) is None


@given(st.lists(st.one_of(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), st.integers(0, 30), st.none())))
def test_nobody_is_lost_or_served_twice(steps: list[tuple[str, int] | int | None]) -> None:
    """Each step adds a request, lets one give up, or serves one."""
    queue: FairQueue[Request] = FairQueue()
    waiting: list[Request] = []
    for step in steps:
        if isinstance(step, tuple):
            waiting += fill(queue, Tenant(step[0], weight=step[1]), step[1])
        elif step is None and waiting:
            assert queue.first() in waiting
            waiting.remove(pop(queue))
        elif step is not None and step < len(waiting):
            queue.discard(waiting.pop(step))
        assert len(queue) == len(waiting)
    assert {pop(queue) for _ in waiting.copy()} == set(waiting)
    assert queue.first() is None
