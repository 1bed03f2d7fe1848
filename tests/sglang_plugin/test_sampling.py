"""Seeded draws and filters."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from service.sglang_plugin.sampling import NextTokens, draw_seeded, gumbel, kept_tokens, sample_filtered

seeds = st.integers(0, 2**62 - 1)


def never(*args: object, **options: object) -> None:
    raise AssertionError("SGLang's own sampler was called")


@given(seed=seeds, position=st.integers(0, 2**20))
def test_noise_is_a_function_of_seed_and_position(seed: int, position: int) -> None:
    noise = gumbel(seed, position, 8)
    assert noise.dtype == torch.float64 and noise.isfinite().all()
    assert torch.equal(noise, gumbel(seed, position, 8))
    assert torch.equal(noise, gumbel(seed, position, 20)[:8])


@pytest.mark.parametrize("along", ["positions", "seeds", "columns"])
def test_noise_is_standard_gumbel(along: str) -> None:
    n = 20_000
    if along == "columns":
        noise = gumbel(12345, 7, n)
    else:
        noise = torch.stack([gumbel(*((12345, i) if along == "positions" else (i, 7)), 1)[0] for i in range(n)])
    assert kstest(noise.numpy(), "gumbel_r").pvalue > 0.001


def test_neighbouring_positions_are_uncorrelated() -> None:
    noise = torch.stack([torch.cat([gumbel(seed, p, 1) for p in range(5)]) for seed in range(4000)])
    correlation = torch.corrcoef(noise.T) - torch.eye(5)
    assert correlation.abs().max() < 5 / math.sqrt(4000)


def test_draws_follow_the_weights() -> None:
    weights = torch.tensor([0.5, 3.0, 0.0, 1.5])
    n = 20_000
    drawn = draw_seeded(weights.log().expand(n, 4), torch.arange(n), torch.full((n,), 3))
    assert drawn.shape == (n, 1) and drawn.dtype == torch.int64
    counts = torch.bincount(drawn.flatten(), minlength=4)
    assert counts[2] == 0
    kept = [0, 1, 3]
    assert chisquare(counts[kept].numpy(), (weights[kept] / weights.sum() * n).double().numpy()).pvalue > 0.001


def test_rounding_moves_a_draw_only_at_a_tie() -> None:
    logprobs = torch.randn(200, 5000).mul(2).log_softmax(-1)
    rounded = logprobs + torch.randn_like(logprobs) * 1e-6
    rows = torch.arange(200)
    assert torch.equal(draw_seeded(logprobs, rows, rows), draw_seeded(rounded, rows, rows))


def test_rows_are_independent_of_their_neighbours() -> None:
    logprobs = torch.randn(6, 20).log_softmax(-1)
    seed, position = torch.arange(6) * 77, torch.arange(6) + 5
    together = draw_seeded(logprobs, seed, position)
    alone = [draw_seeded(logprobs[i : i + 1], seed[i : i + 1], position[i : i + 1]) for i in range(6)]
    assert torch.equal(together, torch.cat(alone))


@settings(max_examples=200, deadline=None)
@given(
    size=st.sampled_from([3, 40, 900]),
    seed=st.integers(0, 1000),
    top_k=st.integers(1, 1000),
    top_p=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_kept_tokens_by_definition(size: int, seed: int, top_k: int, top_p: float, min_p: float) -> None:
    probs = torch.randn(size, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    tokens, weights = kept_tokens(probs, top_k, top_p, min_p)
    ordered, order = probs.sort(descending=True)
    before = ordered.cumsum(0) - ordered
    kept = (torch.arange(size) < top_k) & (before <= top_p) & (ordered >= min_p * ordered[0])
    assert sorted(tokens.tolist()) == sorted(order[kept].tolist())
    assert torch.equal(weights, probs[tokens])


def test_filtered_draws_equal_unfiltered_ones_where_nothing_is_filtered() -> None:
    probs = torch.randn(50, 300).softmax(-1)
    seed, positions = torch.arange(50), torch.arange(50) + 9
    ones, zeros = torch.ones(50), torch.zeros(50)
    drawn = sample_filtered(never, probs, torch.full((50,), 300), ones, zeros, False, seed, positions)
    assert drawn.tolist() == draw_seeded(probs.log(), seed, positions).flatten().tolist()


@pytest.mark.parametrize("seed", [None, torch.tensor([1])])
def test_unseeded_draws_and_those_with_weights_stay_sglangs(seed: torch.Tensor | None) -> None:
    calls: list[dict[str, Any]] = []

    def original(*args: object, **given: object) -> int:
        calls.append(given)
        return 7

    options: dict[str, Any] = {"return_filtered_probs": True, "max_top_k": 5}
    one, zero = torch.ones(1), torch.zeros(1)
    assert sample_filtered(original, torch.tensor([[0.6, 0.4]]), one, one, zero, False, seed, zero, **options) == 7
    assert calls == [options]


def test_tokens_are_drawn_for_wanted_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang.srt.layers.sampler.multinomial_with_seed", draw_seeded)
    logits = torch.randn(5, 30)
    rows, positions = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([7, 8, 9, 4, 5])
    info = SimpleNamespace(
        is_all_greedy=False,
        is_any_greedy=True,
        temperatures=torch.tensor([[0.7], [1.0]]),
        sampling_seed=torch.tensor([11, 12]),
        need_top_p_sampling=False,
        need_top_k_sampling=False,
        need_min_p_sampling=False,
        top_ks=torch.tensor([30, 1]),
    )
    draws = NextTokens(logits, info, rows, positions)  # type: ignore[arg-type]
    expected = (logits[2] / 0.7).log_softmax(-1) + gumbel(11, 9, 30)
    assert draws([2, 4]) == [int(expected.argmax()), int(logits[4].argmax())]
    assert draws([4, 0, 2])[::2] == [int(logits[4].argmax()), int(expected.argmax())]
