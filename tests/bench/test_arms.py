"""Shares of what was chosen while texts grew."""

from __future__ import annotations

from service.bench.arms import STEPS, arm_of, arms_over_time


def details(*choices: tuple[str | None, int]) -> dict[str, object]:
    return {"specserve": {"choices": list(choices)}}


def test_names_of_arms() -> None:
    assert [arm_of("goose", n) for n in (0, 1, 3, 4, 7, 8, 30)] == [
        "plain",
        "goose 1-3",
        "goose 1-3",
        "goose 4-7",
        "goose 4-7",
        "goose 8+",
        "goose 8+",
    ]
    assert arm_of(None, 2) == "draft 1-3"


def test_shares_by_age_of_the_request() -> None:
    long = details(*[("suffix", 2)] * STEPS, (None, 0))
    short = details(*[("goose", 9)] * (STEPS // 2))
    arms = arms_over_time([long, short, None, {}])
    assert arms == {"plain": [0.0, 1.0], "goose 8+": [1 / 3, 0.0], "suffix 1-3": [2 / 3, 0.0]}


def test_nothing_known_is_nothing() -> None:
    assert arms_over_time([None, {"specserve": {"choices": None}}]) == {}
