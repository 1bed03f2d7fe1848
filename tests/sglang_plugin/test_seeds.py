"""Seeds of requests and of their choices."""

from __future__ import annotations

from service.sglang_plugin.seeds import choice_rid, seed_of


def test_the_clients_seed_is_kept_for_the_first_choice() -> None:
    assert seed_of(42, "abc") == seed_of(42, choice_rid("abc", 1)) == seed_of(42, choice_rid("abc", 0)) == 42
    assert seed_of(-1, "abc") == 2**62 - 1


def test_a_clients_own_id_is_no_choice() -> None:
    assert seed_of(42, "order-2") == seed_of(42, "abc-17") == 42


def test_later_choices_differ_and_repeat() -> None:
    choices = [seed_of(42, choice_rid("abc", number)) for number in range(1, 9)]
    assert len(set(choices)) == 8
    assert choices == [seed_of(42, choice_rid("other", number)) for number in range(1, 9)]


def test_without_a_seed_each_request_gets_its_own() -> None:
    assert len({seed_of(None, "abc") for _ in range(100)}) == 100
