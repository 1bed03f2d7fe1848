"""The contract of every routing policy, and what each one is for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from service.errors import UnknownNameError
from service.gateway.routing import POLICIES


@dataclass
class Loaded:
    in_flight: int = 0


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_policy_gives_each_backend_once(name: str, count: int) -> None:
    policy = POLICIES.create(name)
    for _ in range(7):
        assert sorted(policy.order([Loaded() for _ in range(count)])) == list(range(count))


def test_names() -> None:
    assert {"round_robin", "least_load"} <= set(POLICIES)
    with pytest.raises(UnknownNameError, match="round_robin"):
        POLICIES.create("random_walk")


def test_round_robin_takes_turns() -> None:
    policy = POLICIES.create("round_robin")
    assert [policy.order([Loaded(), Loaded(), Loaded()])[0] for _ in range(4)] == [0, 1, 2, 0]


def test_least_load_prefers_the_idle_one_and_breaks_ties_in_turn() -> None:
    policy = POLICIES.create("least_load")
    assert policy.order([Loaded(3), Loaded(1), Loaded(2)]) == [1, 2, 0]
    firsts = {policy.order([Loaded(1), Loaded(1)])[0] for _ in range(2)}
    assert firsts == {0, 1}
