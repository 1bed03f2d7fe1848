"""The inflation gate, by hand."""

from __future__ import annotations

import pytest

from service.bench.inflation import Answer, inflation_summary

STRICT = [Answer(10, 9, False, (1,)), Answer(20, 11, False, (2,))]


def test_longer_answers_in_fewer_steps_pass() -> None:
    found = inflation_summary(STRICT, [Answer(10, 9, False, (1,)), Answer(26, 7, False, (3,))])
    assert found["inflation"] == pytest.approx(1.2)
    assert found["rounds_ratio"] == pytest.approx(16 / 20)
    assert found["tokens_per_step_ratio"] == pytest.approx((36 / 16) / (30 / 20))
    assert (found["changed_texts"], found["passed"]) == (1, True)


def test_more_tokens_a_step_do_not_pass_when_the_steps_grow() -> None:
    found = inflation_summary(STRICT, [Answer(10, 9, False, (1,)), Answer(60, 16, False, (3,))])
    assert found["tokens_per_step_ratio"] > 1 and found["rounds_ratio"] > 1 and not found["passed"]


def test_answers_that_find_no_end_do_not_pass() -> None:
    assert not inflation_summary(STRICT, [STRICT[0], Answer(20, 5, True, (3,))])["passed"]


def test_answers_that_were_cut_anyway_show_nothing() -> None:
    strict = [Answer(20, 11, True, (1,)), Answer(20, 11, True, (2,))]
    found = inflation_summary(strict, [Answer(20, 9, True, (3,)), Answer(20, 9, True, (4,))])
    assert found["rounds_ratio"] < 1 and not found["passed"]


def test_a_rule_that_did_nothing_does_not_pass() -> None:
    assert not inflation_summary(STRICT, STRICT)["passed"]
