"""Draft tokens that are drawn: with the target's noise, without replacement."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from service.speculation.drafter import Sampling  # noqa: E402
from service.speculation.models.chain import best  # noqa: E402
from service.speculation.noise import gumbel  # noqa: E402

CHANCES = (0.5, 0.25, 0.15, 0.1)
DRAWS = 20_000


def drawn(logits: object, count: int, seed: int, temperature: float = 1.0, position: int = 5) -> list[int]:
    ((candidates,),) = best(logits.view(1, 1, -1), count, [Sampling(temperature, seed)], [position])  # type: ignore[attr-defined]
    return list(candidates.tokens)


def test_ordered_pairs_have_the_distribution_without_replacement() -> None:
    """Chi-squared over the 12 ordered pairs, 11 degrees of freedom: 31.3 is the 0.1 % point."""
    logits, counts = torch.tensor(CHANCES).log(), dict.fromkeys(itertools.permutations(range(4), 2), 0)
    for seed in range(DRAWS):
        first, second = drawn(logits, 2, seed)
        counts[first, second] += 1
    statistic = 0.0
    for (first, second), count in counts.items():
        expected = DRAWS * CHANCES[first] * CHANCES[second] / (1 - CHANCES[first])
        statistic += (count - expected) ** 2 / expected
    assert statistic < 31.3


def test_a_model_of_the_targets_distribution_always_draws_the_targets_token() -> None:
    logits = torch.randn(50)
    for seed in range(200):
        target = (logits / 0.7).log_softmax(-1) + gumbel(seed, 9, 50)
        assert drawn(logits, 3, seed, temperature=0.7, position=9)[0] == int(target.argmax())


def test_a_similar_model_agrees_more_often_than_independent_draws_would() -> None:
    generator = torch.Generator().manual_seed(1)
    target = torch.randn(50, generator=generator)
    draft = target + 0.3 * torch.randn(50, generator=generator)
    p, q = target.softmax(-1), draft.softmax(-1)
    agreed = sum(drawn(draft, 1, seed) == drawn(target, 1, seed) for seed in range(3000)) / 3000
    overlap = float(torch.minimum(p, q).sum())
    assert agreed > overlap / (2 - overlap) - 0.03  # the known floor of Gumbel coupling
    assert agreed > 2 * float((p * q).sum())


def test_positions_draw_differently_and_rows_follow_one_another() -> None:
    logits = torch.zeros(1, 3, 1000)
    (row,) = best(logits, 1, [Sampling(1.0, 3)], [10])
    tokens = [candidates.tokens[0] for candidates in row]
    assert len(set(tokens)) == 3
    assert tokens == [drawn(torch.zeros(1000), 1, 3, position=10 + r)[0] for r in range(3)]


def test_greedy_requests_are_not_drawn_for() -> None:
    logits = torch.randn(1, 2, 20)
    ((first, second),) = best(logits, 4, [None], [0])
    assert first.tokens == logits[0, 0].topk(4).indices.tolist()
    assert list(second.chances) == sorted(second.chances, reverse=True)
