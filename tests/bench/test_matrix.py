"""Cells of the matrix, by hand."""

from __future__ import annotations

from service.bench.client import Completion
from service.bench.matrix import KINDS, _cell, matrix_summary


def answer(*ids: int, margins: tuple[float, ...] | None = None, proposed: int | None = None) -> Completion:
    return Completion("", ids, "stop", margins, proposed, 0 if proposed is not None else None)


PLAIN = [answer(1, 2, 3, margins=(1.0, 1.0, 1e-5)), answer(4, 5, margins=(1.0, 1.0))]


def test_the_same_tokens_pass() -> None:
    cell = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 2, 3, proposed=4), answer(4, 5)])
    assert (cell.identical, cell.proposed, cell.passed) == (2, 4, True)


def test_a_near_tie_is_excused_and_another_difference_is_not() -> None:
    near = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 2, 9), answer(4, 5)])
    assert (near.identical, near.excused, near.passed) == (1, 1, True)
    wrong = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 9, 3), answer(4, 5)])
    assert (wrong.excused, wrong.passed) == (0, False)
    assert not matrix_summary([near, wrong])["passed"]


def test_sampled_answers_may_differ_at_ties_but_not_often() -> None:
    sampled = [answer(number) for number in range(10)]
    one_off = [answer(99), *sampled[1:]]
    two_off = [answer(99), answer(98), *sampled[2:]]
    name = "temperature 0.8, top-p 0.9"
    assert _cell("suffix", ("fixed",), "text", name, 1, sampled, one_off).passed
    assert not _cell("suffix", ("fixed",), "text", name, 1, sampled, two_off).passed


def test_the_kinds_ask_for_text_schema_and_tools() -> None:
    assert set(KINDS) == {"text", "json schema", "tools"}
    assert KINDS["tools"]["tool_choice"] == "required"
