"""Places by the room in the backends' KV caches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from service.gateway.admission.gate import Gate
from service.gateway.admission.kv_budget import KvBudget
from service.telemetry.kv import KvFigures
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, running_stack
from tests.doubles.wait import wait_until
from tests.gateway.admission.test_gate import enter, make_gate, sample


def figures(used: int, total: int = 1000) -> KvFigures:
    return KvFigures(room=total - used, full=used)


def told(*used: int, share: float = 1.0) -> KvBudget:
    budget = KvBudget(share)
    for number, tokens in enumerate(used):
        budget.tell(f"b{number}", figures(tokens), up=True)
    return budget


def test_nothing_is_bounded_while_nothing_is_known() -> None:
    budget = KvBudget(0.5)
    budget.tell("b0", None, up=True)
    assert budget.limit is None
    assert budget.hold(10**9, alone=False) == 0


def test_the_share_of_all_backends() -> None:
    budget = told(0, 0, share=0.5)
    assert budget.limit == 1000
    assert [budget.hold(240, alone=False) for _ in range(5)] == [240] * 4 + [None]
    assert budget.reserved == 960


def test_what_others_hold_is_not_ours_to_fill() -> None:
    budget = told(0)
    assert budget.hold(200, alone=False) == 200
    budget.tell("b0", figures(200), up=True)
    assert budget.limit == 1000
    budget.tell("b0", figures(700), up=True)
    assert budget.limit == 500
    assert budget.hold(240, alone=False) == 240
    assert budget.hold(240, alone=False) is None


def test_what_ended_since_the_last_word_was_ours() -> None:
    budget = told(0, 0)
    held = budget.hold(400, alone=False) or 0
    budget.tell("b0", figures(400), up=True)
    budget.reserved -= held
    budget.tell("b1", figures(0), up=True)
    assert budget.limit == 2000


def test_a_busy_backend_keeps_its_figures_and_one_that_is_down_has_no_room() -> None:
    budget = told(0, 0)
    budget.tell("b0", None, up=True)
    assert budget.limit == 2000
    budget.tell("b0", None, up=False)
    assert budget.limit == 1000
    budget.tell("b2", None, up=True)
    assert budget.limit == 2000
    budget.tell("b1", None, up=False)
    assert budget.limit is None


def test_an_absurd_maximum_takes_a_quarter_of_the_share() -> None:
    budget = told(0)
    assert budget.hold(10**12, alone=False) == 250
    assert budget.hold(700, alone=False) == 250


@given(
    share=st.floats(0.01, 100),
    used=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
    costs=st.lists(st.integers(0, 2000)),
)
def test_reservations_stay_within_the_limit_but_for_one_alone(share: float, used: list[int], costs: list[int]) -> None:
    budget = told(*used, share=share)
    assert budget.limit is not None
    for cost in costs:
        before = budget.reserved
        held = budget.hold(cost, alone=before == 0)
        assert held is not None or before > 0
        assert budget.reserved == before + (held or 0)
        assert before == 0 or held is None or budget.reserved <= budget.limit


def kv_gate(used: int = 0) -> Gate:
    gate = make_gate(None, kv_share=1)
    gate.tell_kv("b", figures(used), up=True)
    return gate


async def test_requests_wait_for_room_in_their_order() -> None:
    gate = kv_gate()
    places = [enter(gate, cost=250) for _ in range(4)]
    large, small = enter(gate, cost=200), enter(gate, cost=10)
    # The small one would fit sooner, but then the large one might never.
    gate.leave(places[0])
    assert [place.state for place in (large, small)] == ["inside", "inside"]
    again = enter(gate, cost=100)
    gate.leave(small)
    assert again.state == "waiting"
    gate.leave(large)
    assert again.state == "inside"
    for place in (*places, again):
        gate.leave(place)
    assert (gate.running, gate.queued) == (0, 0)
    assert gate._kv is not None and gate._kv.reserved == 0


async def test_who_comes_alone_goes_in_and_news_let_others_in() -> None:
    gate = kv_gate(used=1000)
    assert enter(gate, cost=500).state == "inside"
    waiting = enter(gate, cost=100)
    assert waiting.state == "waiting"
    assert sample(gate, "admission_kv_limit_tokens") == 0
    gate.tell_kv("b", figures(0), up=True)
    assert waiting.state == "inside"
    gate.tell_kv("b", figures(0), up=True)
    assert sample(gate, "admission_kv_limit_tokens") == 1000
    assert sample(gate, "admission_kv_reserved_tokens") == 350


async def test_a_pool_that_tells_nothing_more_is_no_longer_bounded() -> None:
    gate = kv_gate(used=1000)
    places = [enter(gate, cost=100) for _ in range(3)]
    gate.tell_kv("b", None, up=False)
    assert [place.state for place in places] == ["inside"] * 3
    for place in places:
        gate.leave(place)
    assert gate._kv is not None and gate._kv.reserved == 0


def test_a_backend_with_little_room_gets_few_requests_at_once() -> None:
    fake = FakeSGLang(kv_tokens=(0, 1000), ttft=0.1)
    with (
        running_stack({"default": [fake]}, admission={"kv_share": 0.5}, health_interval_s=0.05) as stack,
        ThreadPoolExecutor(8) as threads,
    ):
        own = {"model": MODEL, "pool": "default"}
        wait_until(lambda: stack.metric("specserve_admission_kv_limit_tokens", **own) == 500)
        most = 0
        answers = [threads.submit(stack.chat, max_tokens=110, stream=number % 2 == 0) for number in range(8)]
        while not all(answer.done() for answer in answers):
            most = max(most, len(fake.running))
        assert [answer.result().status_code for answer in answers] == [200] * 8
        # Each is reckoned with a prompt of 6 tokens and an answer of 110.
        assert most == 4
        assert (stack.metric("specserve_queue_seconds_sum", **own) or 0) > 0.05
        fake.knobs.kv_tokens = (500, 1000)
        wait_until(lambda: stack.metric("specserve_admission_kv_limit_tokens", **own) == 0)
        assert stack.chat().status_code == 200
        assert stack.gateway.catalog.models[0].pools[0].gate.running == 0
