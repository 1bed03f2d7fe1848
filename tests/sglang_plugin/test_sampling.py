"""Seeds and seeded draws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.sglang_plugin.sampling import draw_seeded, sample_filtered, seed_of, uniform

seeds = st.integers(0, 2**62 - 1)


@given(seed=seeds, position=st.integers(0, 2**20))
def test_uniform_is_a_function_into_the_unit_interval(seed: int, position: int) -> None:
    assert 0 <= uniform(seed, position) < 1
    assert uniform(seed, position) == uniform(seed, position)


def test_uniform_is_uniform_along_positions_and_along_seeds() -> None:
    n = 20_000
    for draws in (
        [uniform(12345, position) for position in range(n)],
        [uniform(seed, 7) for seed in range(n)],
        [uniform(s, s) for s in range(n)],
    ):
        counts = torch.histc(torch.tensor(draws), bins=50, min=0, max=1)
        statistic = float(((counts - n / 50) ** 2 / (n / 50)).sum())
        assert statistic < 49 + 5 * math.sqrt(2 * 49)


def test_neighbouring_positions_are_uncorrelated() -> None:
    draws = torch.tensor([[uniform(seed, p) for p in range(5)] for seed in range(4000)], dtype=torch.float64)
    correlation = torch.corrcoef(draws.T) - torch.eye(5)
    assert correlation.abs().max() < 5 / math.sqrt(4000)


@given(weights=st.lists(st.floats(0, 10), min_size=1, max_size=12), seed=seeds, position=st.integers(0, 9999))
def test_draws_are_the_inverse_distribution_function(weights: list[float], seed: int, position: int) -> None:
    if sum(weights) <= 1e-6:
        return
    drawn = draw_seeded(torch.tensor([weights]).double().log(), torch.tensor([seed]), torch.tensor([position]))
    assert drawn.shape == (1, 1) and drawn.dtype == torch.int64
    threshold = uniform(seed, position) * sum(weights)
    column = int(drawn)
    assert weights[column] > 0
    assert sum(weights[:column]) <= threshold * (1 + 1e-9) + 1e-12
    assert sum(weights[: column + 1]) >= threshold * (1 - 1e-9) - 1e-12


def test_rows_are_independent_of_their_neighbours() -> None:
    logprobs = torch.randn(6, 20).log_softmax(-1)
    seed, position = torch.arange(6) * 77, torch.arange(6) + 5
    together = draw_seeded(logprobs, seed, position)
    alone = [draw_seeded(logprobs[i : i + 1], seed[i : i + 1], position[i : i + 1]) for i in range(6)]
    assert torch.equal(together, torch.cat(alone))


def test_columns_of_weight_zero_are_never_drawn() -> None:
    logprobs = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]]).expand(500, 5)
    drawn = draw_seeded(logprobs, torch.arange(500), torch.zeros(500, dtype=torch.int64))
    assert set(drawn.flatten().tolist()) == {1, 3}


def test_the_clients_seed_is_kept_for_the_first_choice() -> None:
    assert seed_of(42, "abc") == seed_of(42, "abc-1") == seed_of(42, "abc-0") == 42
    assert seed_of(-1, "abc") == 2**62 - 1


def test_later_choices_differ_and_repeat() -> None:
    choices = [seed_of(42, f"abc-{number}") for number in range(1, 9)]
    assert len(set(choices)) == 8
    assert choices == [seed_of(42, f"other-{number}") for number in range(1, 9)]


def test_without_a_seed_each_request_gets_its_own() -> None:
    assert len({seed_of(None, "abc") for _ in range(100)}) == 100


@pytest.mark.parametrize("min_p", [0.0, 0.3])
def test_min_p_is_applied_before_seeded_draws(min_p: float) -> None:
    calls = []

    def original(
        probs: torch.Tensor, top_ks: object, top_ps: object, min_ps: object, needed: bool, *rest: object
    ) -> int:
        calls.append((probs, needed))
        return 7

    probs = torch.tensor([[0.6, 0.25, 0.15]])
    floor = torch.tensor([min_p])
    drawn = sample_filtered(original, probs, None, torch.ones(1), floor, min_p > 0, torch.tensor([3]), None)  # type: ignore[arg-type]
    assert drawn == 7
    ((kept, needed),) = calls
    assert not needed
    assert kept[0].tolist() == pytest.approx([0.6, 0.25, 0.0 if min_p else 0.15])
