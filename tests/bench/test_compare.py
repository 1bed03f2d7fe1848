from __future__ import annotations

import pytest

from service.bench.client import Completion
from service.bench.compare import first_difference


def completion(*ids: int, margins: tuple[float, ...] | None = None) -> Completion:
    return Completion("", ids, "stop", margins)


def test_equal_answers_have_no_difference() -> None:
    assert first_difference("p", completion(1, 2), completion(1, 2)) is None


def test_the_first_differing_token_is_named() -> None:
    found = first_difference("p", completion(1, 2, 3, margins=(5.0, 0.5, 1.0)), completion(1, 9, 9))
    assert found is not None
    assert (found.prompt, found.position, found.expected, found.found, found.margin) == ("p", 1, 2, 9, 0.5)
    assert not found.excused


@pytest.mark.parametrize(("margin", "excused"), [(0.0, True), (9.9e-5, True), (1e-4, False), (0.3, False)])
def test_only_near_ties_are_excused(margin: float, excused: bool) -> None:
    found = first_difference("p", completion(1, margins=(margin,)), completion(2))
    assert found is not None and found.excused == excused


def test_a_shorter_answer_differs_at_its_end() -> None:
    found = first_difference("p", completion(1, 2, margins=(1.0, 1e-9)), completion(1))
    assert found is not None
    assert (found.position, found.expected, found.found) == (1, 2, None)


def test_a_longer_answer_is_never_excused() -> None:
    found = first_difference("p", completion(1, margins=(1e-9,)), completion(1, 2))
    assert found is not None
    assert (found.position, found.expected, found.margin, found.excused) == (1, None, None, False)
