from __future__ import annotations

import random
from collections import Counter

import pytest

from service.bench.permutation import chi_square, same_distribution


def draws(seed: int, weights: list[float], count: int = 600) -> list[int]:
    return random.Random(seed).choices(range(len(weights)), weights, k=count)


def test_the_statistic_by_hand() -> None:
    # expected 15 and 5 in both rows: 4 cells of 25/15, 25/15, 25/5, 25/5
    assert chi_square(Counter(a=10, b=10), Counter(a=20, b=0)) == pytest.approx(2 * 25 / 15 + 2 * 25 / 5)


def test_equal_samples_do_not_differ() -> None:
    assert same_distribution(draws(1, [1, 2, 3]), draws(1, [1, 2, 3]), rounds=200) == 1.0


def test_one_distribution_is_seldom_rejected() -> None:
    p_values = [
        same_distribution(draws(seed, [1, 2, 3, 4]), draws(seed + 100, [1, 2, 3, 4]), rounds=200) for seed in range(20)
    ]
    assert min(p_values) > 0.004
    assert 0.25 < sum(p_values) / 20 < 0.75


def test_two_distributions_are_rejected() -> None:
    assert same_distribution(draws(1, [1, 2, 3, 4]), draws(2, [2, 2, 3, 3]), rounds=1000) < 0.002


def test_a_sample_is_needed() -> None:
    with pytest.raises(ValueError, match="at least one"):
        same_distribution([], [1])
