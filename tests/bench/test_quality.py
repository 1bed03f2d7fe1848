"""The quality gate's sums, by hand."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import pytest

from service.bench.quality import Kind, Score, Task, Thresholds, quality_summary, recall_by_depth

TASKS = [
    Task("perplexity", (1,), (2, 3)),
    Task("recall", (1,), (2, 3), 0.5),
    Task("agreement", (1,), (2, 3)),
    Task("multi_turn", (1,), (2, 3)),
]


def score(*chances: float, best: tuple[bool, ...] = (True, True), held: int = 100) -> Score:
    return Score(tuple(map(log, chances)), best, held, 100)


WHOLE = [score(0.5, 0.5), score(0.8, 0.8), score(0.9, 0.9), score(0.9, 0.9)]


def summary(compressed: list[Score], tasks: list[Task] = TASKS, whole: list[Score] = WHOLE) -> dict[str, Any]:
    return quality_summary(
        tasks, whole, compressed, (lambda score: 8 * score.held, lambda score: 8 * score.held), Thresholds()
    )


def test_a_cache_of_half_the_tokens_with_the_same_answers_passes() -> None:
    found = summary([score(0.5, 0.5, held=50), *[score(0.8, 0.8, held=50)] * 3])
    assert (found["bytes_per_token"], found["bytes_ratio"]) == (4.0, 2.0)
    assert found["perplexity_ratio"] == pytest.approx(1) and found["recall_ratio"] == pytest.approx(1)
    assert (found["agreement"], found["multi_turn"], found["passed"], found["missed"]) == (1.0, 1.0, True, [])


def test_ratios_are_of_geometric_means() -> None:
    found = summary([score(0.25, 0.5, held=50), score(0.2, 0.8, held=50), *WHOLE[2:]])
    assert found["perplexity_ratio"] == pytest.approx(2**0.5)
    assert found["perplexity_whole"] == pytest.approx(2)
    assert found["recall_ratio"] == pytest.approx(0.5)
    assert found["missed"] == ["perplexity_ratio", "recall_ratio"] and not found["passed"]


@pytest.mark.parametrize(("place", "name"), [(2, "agreement"), (3, "multi_turn")])
def test_other_greedy_tokens_are_missed(place: int, name: str) -> None:
    compressed = [score(0.9, 0.9, held=50)] * 4
    compressed[place] = score(0.9, 0.9, best=(True, False), held=50)
    found = summary(compressed)
    assert found[name] == 0.5 and found["missed"] == [name]


def test_a_cache_that_saved_nothing_proves_nothing() -> None:
    assert summary(WHOLE)["missed"] == ["bytes_ratio"]


def test_a_cache_that_is_read_in_part_is_compressed() -> None:
    found = summary([replace(score, read=0.25) for score in WHOLE])
    assert (found["bytes_ratio"], found["read_share"], found["passed"]) == (1.0, 0.25, True)


@pytest.mark.parametrize("absent", ["perplexity", "recall", "agreement", "multi_turn"])
def test_what_was_not_measured_is_missed(absent: Kind) -> None:
    kept = [i for i, task in enumerate(TASKS) if task.kind != absent]
    small = [score(0.9, 0.9, held=50)] * 3
    found = summary(small, [TASKS[i] for i in kept], [WHOLE[i] for i in kept])
    assert not found["passed"] and len(found["missed"]) == 1 and found["missed"][0].startswith(absent)
    assert found[found["missed"][0]] is None


def test_recall_is_told_by_depth() -> None:
    tasks = [Task("recall", (1,), (2, 3), depth) for depth in (0.9, 0.1)]
    whole, small = [score(0.8, 0.2), score(0.5, 0.5)], [score(0.1, 0.1), score(0.4, 0.9)]
    assert recall_by_depth(tasks, whole, small) == [
        {"depth": 0.1, "whole": pytest.approx(0.5), "compressed": pytest.approx(0.6)},
        {"depth": 0.9, "whole": pytest.approx(0.4), "compressed": pytest.approx(0.1)},
    ]
