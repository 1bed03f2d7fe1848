"""Gumbel top-k draws without replacement."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.gumbel_topk import gumbel_top_k

CHANCES = (0.5, 0.25, 0.15, 0.1)
LOGS = np.log(CHANCES)
DRAWS = 20_000


def test_ordered_pairs_have_the_distribution_without_replacement() -> None:
    """Chi-squared over the 12 ordered pairs, 11 degrees of freedom: 31.3 is the 0.1 % point."""
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(DRAWS):
        pair = tuple(draw.token for draw in gumbel_top_k(LOGS, 2, seed))
        counts[pair] = counts.get(pair, 0) + 1
    statistic = 0.0
    for first, second in itertools.permutations(range(4), 2):
        expected = DRAWS * CHANCES[first] * CHANCES[second] / (1 - CHANCES[first])
        statistic += (counts.get((first, second), 0) - expected) ** 2 / expected
    assert statistic < 31.3


def test_the_best_score_is_gumbel_distributed() -> None:
    """Its distribution function at x is exp(-sum of p * exp(-x)); Kolmogorov-Smirnov at the 0.1 % point."""
    total = 3.0
    scores = sorted(gumbel_top_k(LOGS + math.log(total), 1, seed)[0].score for seed in range(5000))
    theory = np.exp(-total * np.exp(-np.array(scores)))
    assert np.abs(theory - np.arange(1, 5001) / 5000).max() < 1.95 / math.sqrt(5000)


@given(
    logs=st.lists(st.floats(-30, 0) | st.just(-math.inf), max_size=30), k=st.integers(1, 40), seed=st.integers(0, 99)
)
def test_draws_differ_fall_and_are_possible(logs: list[float], k: int, seed: int) -> None:
    draws = gumbel_top_k(logs, k, seed)
    tokens, scores = [draw.token for draw in draws], [draw.score for draw in draws]
    assert len(set(tokens)) == len(tokens) == min(k, sum(log > -math.inf for log in logs))
    assert scores == sorted(scores, reverse=True)
    assert [draw.log_prob for draw in draws] == [logs[token] for token in tokens]
    assert draws == gumbel_top_k(logs, k, seed)
    assert draws[:3] == gumbel_top_k(logs, min(k, 3), seed)


@pytest.mark.parametrize(("logs", "k"), [([0.0], 0), ([math.nan], 1), ([math.inf], 1)])
def test_nonsense_is_refused(logs: list[float], k: int) -> None:
    with pytest.raises(ValueError, match="k >= 1"):
        gumbel_top_k(logs, k, 0)
