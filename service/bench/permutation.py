"""A two-sample test that needs no tables: the chi-square statistic under random relabelling."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Sequence


def chi_square(first: Counter[Hashable], second: Counter[Hashable]) -> float:
    """Pearson's statistic of a 2 x cells table; 0 for equal proportions."""
    n, m = first.total(), second.total()
    statistic = 0.0
    for cell in first.keys() | second.keys():
        both = first[cell] + second[cell]
        expected = both * n / (n + m)
        statistic += (first[cell] - expected) ** 2 * (1 / expected + 1 / (both - expected))
    return statistic


def same_distribution(
    first: Sequence[Hashable], second: Sequence[Hashable], *, rounds: int = 2000, seed: int = 0
) -> float:
    """p-value of the hypothesis that both samples come from one distribution, at least 1 / (rounds + 1).

    Exact for any cell counts, because the statistic is compared with itself under permuted labels. Both
    samples must hold independent draws. Raises ValueError for an empty sample.
    """
    if not first or not second:
        raise ValueError("both samples must hold at least one draw")
    observed = chi_square(Counter(first), Counter(second))
    pooled = [*first, *second]
    everything = Counter(pooled)
    generator = random.Random(seed)
    as_extreme = 0
    for _ in range(rounds):
        generator.shuffle(pooled)
        part = Counter(pooled[: len(first)])
        as_extreme += chi_square(part, everything - part) >= observed - 1e-9
    return (1 + as_extreme) / (1 + rounds)
