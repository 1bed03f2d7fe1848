"""The contract of every routing policy, and what each one is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random as Source

import pytest

from service.errors import UnknownNameError
from service.gateway.routing import RoutingPolicy, routing_registry
from service.gateway.routing.cache_aware import CacheAware
from service.gateway.routing.power_of_two import PowerOfTwo
from service.gateway.routing.prefix_index import PrefixIndex
from service.gateway.routing.random import Random
from service.gateway.routing.session import Session
from service.gateway.routing.weighted import Weighted

REGISTRY = routing_registry()


@dataclass
class Loaded:
    in_flight: int = 0
    url: str = "http://one"
    weight: float = 1.0


@dataclass
class Asked:
    session: str | None = None
    text: bytes = b""

    def beginning(self) -> bytes:
        return self.text


def fleet(count: int, *, weights: tuple[float, ...] = ()) -> list[Loaded]:
    return [Loaded(0, f"http://backend-{i}:30000", weights[i] if weights else 1.0) for i in range(count)]


def policy_named(name: str) -> RoutingPolicy:
    return REGISTRY.load(name)()


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_policy_gives_each_backend_once(name: str, count: int) -> None:
    policy = policy_named(name)
    for turn in range(9):
        request = Asked(f"session {turn}" if turn % 2 else None, b"hello" * 400 * (turn % 3))
        assert sorted(policy.order(fleet(count), request)) == list(range(count))


def test_names() -> None:
    expected = {"round_robin", "random", "weighted", "least_load", "power_of_two", "session", "cache_aware"}
    assert expected <= set(REGISTRY)
    with pytest.raises(UnknownNameError, match="round_robin"):
        REGISTRY.load("random_walk")


def test_round_robin_takes_turns() -> None:
    policy = policy_named("round_robin")
    assert [policy.order(fleet(3), Asked())[0] for _ in range(4)] == [0, 1, 2, 0]


def test_least_load_prefers_the_idle_one_and_breaks_ties_in_turn() -> None:
    policy = policy_named("least_load")
    assert policy.order([Loaded(3), Loaded(1), Loaded(2)], Asked()) == [1, 2, 0]
    firsts = {policy.order([Loaded(1), Loaded(1)], Asked())[0] for _ in range(2)}
    assert firsts == {0, 1}


def test_least_load_gives_a_bigger_machine_more() -> None:
    assert policy_named("least_load").order([Loaded(3), Loaded(4, weight=2.0)], Asked())[0] == 1


def test_random_draws_by_weight() -> None:
    policy = Random(Source(1))
    firsts = Counter(policy.order(fleet(2, weights=(1.0, 3.0)), Asked())[0] for _ in range(4000))
    assert firsts[1] / 4000 == pytest.approx(0.75, abs=0.03)


def test_power_of_two_never_takes_the_busiest_and_is_nearly_even() -> None:
    policy, backends = PowerOfTwo(Source(2)), fleet(8)
    for _ in range(800):
        backends[policy.order(backends, Asked())[0]].in_flight += 1
    loads = [backend.in_flight for backend in backends]
    assert max(loads) - min(loads) <= 8
    backends[3].in_flight += 100
    assert all(policy.order(backends, Asked())[0] != 3 for _ in range(200))


def test_weighted_shares_are_exact_and_come_without_bursts() -> None:
    policy, backends = Weighted(), fleet(3, weights=(5.0, 1.0, 1.0))
    firsts = [policy.order(backends, Asked())[0] for _ in range(14)]
    assert Counter(firsts) == {0: 10, 1: 2, 2: 2}
    assert firsts[:7] == [0, 0, 1, 0, 2, 0, 0]


def test_weighted_forgets_a_backend_that_was_away() -> None:
    policy, backends = Weighted(), fleet(2, weights=(1.0, 9.0))
    for _ in range(5):
        policy.order(backends[:1], Asked())
    firsts = Counter(policy.order(backends, Asked())[0] for _ in range(10))
    assert firsts == {1: 9, 0: 1}


def test_a_session_stays_and_only_the_sessions_of_a_lost_backend_move() -> None:
    policy, backends = Session(), fleet(5)
    keys = [f"user {i}" for i in range(500)]
    homes = {key: policy.order(backends, Asked(key)) for key in keys}
    assert all(policy.order(backends, Asked(key)) == homes[key] for key in keys)
    without = [*backends[:2], *backends[3:]]
    for key in keys:
        now = without[policy.order(without, Asked(key))[0]].url
        stays = homes[key][0] if homes[key][0] != 2 else homes[key][1]
        assert now == backends[stays].url
    assert max(Counter(order[0] for order in homes.values()).values()) < 500 / 5 * 1.4


def test_sessions_follow_weights_and_requests_without_one_follow_load() -> None:
    policy, backends = Session(), fleet(2, weights=(1.0, 3.0))
    homes = Counter(policy.order(backends, Asked(str(i)))[0] for i in range(2000))
    assert homes[1] / 2000 == pytest.approx(0.75, abs=0.04)
    assert policy.order([Loaded(2), Loaded(1)], Asked())[0] == 1


def test_cache_aware_goes_where_the_beginning_was_read() -> None:
    policy, backends = CacheAware(), fleet(4)
    texts = [bytes([65 + i]) * 4096 for i in range(4)]
    homes = [policy.order(backends, Asked(text=text))[0] for text in texts]
    assert sorted(homes) == [0, 1, 2, 3]
    for text, home in zip(texts, homes, strict=True):
        assert policy.order(backends, Asked(text=text + b"and a new turn" * 100))[0] == home


def test_cache_aware_makes_no_hot_spot_of_a_popular_beginning() -> None:
    policy, backends = CacheAware(), fleet(4)
    for i in range(400):
        backends[policy.order(backends, Asked(text=b"system prompt " * 300 + str(i).encode()))[0]].in_flight += 1
    loads = [backend.in_flight for backend in backends]
    assert max(loads) <= 1.5 * min(loads) + 5


def test_cache_aware_treats_a_short_common_beginning_as_none() -> None:
    policy, backends = CacheAware(), fleet(2)
    home = policy.order(backends, Asked(text=b"x" * 300))[0]
    backends[home].in_flight = 1
    assert policy.order(backends, Asked(text=b"x" * 256 + bytes(range(256)) * 8))[0] != home


def test_the_prefix_index_knows_whole_blocks_and_is_bounded() -> None:
    index = PrefixIndex(block=4, most=5)
    index.note(b"abcdefghij", "a")
    assert index.known(b"abcdefghij") == {"a": 8}
    assert index.known(b"abcdXXXX") == {"a": 4}
    assert index.known(b"XbcdefghXXXX") == {}
    index.note(b"abcd", "b")
    assert index.known(b"abcdefgh") == {"a": 8, "b": 4}
    for i in range(100):
        index.note(f"{i:04}{i:04}".encode(), "c")
    assert len(index) == 5
    assert index.known(b"abcdefgh") == {}


def test_a_reader_of_later_blocks_alone_has_read_nothing() -> None:
    index = PrefixIndex(block=2, most=3)
    index.note(b"aabbcc", "old")
    index.note(b"aabb", "new")
    index.note(b"zz", "new")
    assert "old" not in index.known(b"xxbbcc")
    assert index.known(b"aabbcc").get("new") == 4
