"""What is held, what was seen, and what the settings say, without an engine."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens
from service.sglang_plugin.eviction.breaks import Breaks
from service.sglang_plugin.eviction.config import VARIABLE, EvictionConfig, read_config
from service.sglang_plugin.eviction.held import HeldTokens
from service.sglang_plugin.eviction.statistics import Statistics, probabilities


class Watching(ScoredTokens):
    """Asks for everything."""

    window: ClassVar[int] = 4
    every_query: ClassVar[bool] = True

    def score(self, view: CacheView) -> torch.Tensor:
        return view.positions.float()


def test_all_is_held_at_first() -> None:
    held = HeldTokens()
    assert held.whole and held.count(5) == 5 and held.positions(5).tolist() == [0, 1, 2, 3, 4]
    assert held.inside([(1, 3)]).tolist() == [1, 2] and held.holes(0) == 0


@given(
    kept=st.sets(st.integers(0, 19)),
    length=st.integers(20, 30),
    start=st.integers(0, 30),
    middle=st.integers(0, 30),
)
@settings(deadline=None)
def test_held_tokens_are_those_kept_and_those_behind(kept: set[int], length: int, start: int, middle: int) -> None:
    held = HeldTokens()
    held.keep(torch.tensor(sorted(kept), dtype=torch.int64), 20)
    expected = [*sorted(kept), *range(20, length)]
    assert held.positions(length).tolist() == expected and held.count(length) == len(expected)
    assert held.holes(start) == len([p for p in range(start, 20) if p not in kept])
    cuts = sorted((min(start, length), min(middle, length)))
    ranges = [(cuts[0], cuts[1]), (cuts[1], length)]
    assert sorted(held.inside(ranges).tolist()) == [p for p in expected if p >= cuts[0]]


def naive(query: torch.Tensor, keys: torch.Tensor, scale: float) -> torch.Tensor:
    n, heads, _ = query.shape
    out = torch.zeros(heads, n, keys.shape[0])
    for h in range(heads):
        for i in range(n):
            seen = keys.shape[0] - n + i + 1
            scores = keys[:seen, h // (heads // keys.shape[1])] @ query[i, h] * scale
            out[h, i, :seen] = scores.softmax(0)
    return out


@pytest.mark.parametrize(("n", "length"), [(1, 1), (1, 9), (4, 9), (9, 9)])
def test_probabilities_equal_softmax_written_out(n: int, length: int) -> None:
    torch.manual_seed(n)
    query, keys = torch.randn(n, 6, 8), torch.randn(length, 2, 8)
    torch.testing.assert_close(probabilities(query, keys, 0.3), naive(query, keys, 0.3))


@pytest.mark.parametrize("cuts", [[11], [4, 11], [9, 11], [10, 11], [3, 6, 8, 10, 11]])
def test_pieces_of_a_prompt_show_what_the_whole_shows(cuts: list[int]) -> None:
    torch.manual_seed(0)
    layers, query, keys = 2, torch.randn(2, 11, 6, 8), torch.randn(2, 11, 2, 8)
    seen = Statistics(Watching(), layers, goal=11)
    start = 0
    for end in cuts:
        assert seen.wants_chunk(end)
        for layer in range(layers):
            seen.see_chunk(layer, query[layer, start:end], keys[layer, :end], 0.3)
        start = end
    whole = torch.stack([naive(query[layer], keys[layer], 0.3) for layer in range(layers)])
    attention, mass = seen.attention(11), seen.mass_of(11)
    assert attention is not None and mass is not None
    torch.testing.assert_close(attention, whole.mean(1)[:, -4:])
    torch.testing.assert_close(mass, whole.mean((0, 1)).sum(0))


def test_steps_are_in_line_with_held_tokens() -> None:
    torch.manual_seed(0)
    seen = Statistics(Watching(), 1, goal=3)
    seen.see_chunk(0, torch.randn(3, 2, 8), torch.randn(3, 2, 8), 0.3)
    seen.forget_all_but(torch.tensor([0, 2]), 3)
    before = seen.mass_of(2)
    keys = torch.randn(4, 2, 8)
    query = torch.randn(2, 1, 2, 8)
    seen.see_step(0, query[0], keys[:3], 0.3)
    seen.see_step(0, query[1], keys, 0.3)
    attention, mass = seen.attention(5), seen.mass_of(5)
    assert attention is not None and mass is not None and before is not None
    first, second = naive(query[0], keys[:3], 0.3).mean(0)[0], naive(query[1], keys, 0.3).mean(0)[0]
    torch.testing.assert_close(attention[0, 0], torch.cat((first, torch.zeros(2))))
    torch.testing.assert_close(attention[0, 1], torch.cat((second, torch.zeros(1))))
    expected = torch.zeros(5)
    expected[:2] += before
    expected[:3] += first
    expected[:4] += second
    torch.testing.assert_close(mass, expected)


def test_only_the_last_queries_of_steps_are_kept() -> None:
    seen = Statistics(Watching(), 1, goal=0)
    for length in range(1, 8):
        seen.see_step(0, torch.randn(1, 2, 8), torch.randn(length, 2, 8), 0.3)
    attention = seen.attention(7)
    assert attention is not None and attention.shape == (1, 4, 7)


def test_settings_are_read_and_bad_ones_told() -> None:
    assert read_config({}) == EvictionConfig()
    text = json.dumps({"policy": "snapkv", "budget": 64, "options": {"sinks": 2}})
    assert read_config({VARIABLE: text}) == EvictionConfig("snapkv", 64, options={"sinks": 2})
    for bad in ("[", '{"policies": 1}', '{"budget": 0}', "[1]"):
        with pytest.raises(ValueError, match="SPECSERVE_KV_EVICTION holds no valid settings"):
            read_config({VARIABLE: bad})


class Splitting(Watching):
    """Asks where attention stays."""

    onset: ClassVar[int] = 3


def test_onset_is_what_the_next_queries_keep_from_there_on() -> None:
    torch.manual_seed(0)
    keys, queries = torch.randn(2, 9, 2, 4), torch.randn(2, 9, 4, 4)
    seen = Statistics(Splitting(), layers=2, goal=8)
    for begin, end in ((0, 5), (5, 8)):
        for layer in range(2):
            seen.see_chunk(layer, queries[layer, begin:end], keys[layer, :end], 0.5)
    for layer in range(2):
        seen.see_step(layer, queries[layer, 8:], keys[layer], 0.5)
    whole = torch.stack([naive(queries[layer], keys[layer], 0.5).mean(0) for layer in range(2)]).mean(0)
    expected = [float(sum(whole[q, i:].sum() for q in range(i, min(i + 3, 9)))) / 3 for i in range(9)]
    found = seen.onset_of(9)
    assert found is not None
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)
    seen.forget_all_but(torch.tensor([0, 4, 8]), 9)
    kept = seen.onset_of(4)
    assert kept is not None
    torch.testing.assert_close(kept, torch.tensor([expected[0], expected[4], expected[8], 0.0]), atol=1e-5, rtol=0)


def test_breaks_are_ends_of_sentences_clauses_lines_and_json() -> None:
    words = ["Hello", ", ", "\n", " ", "", " you.", "}", "3.5"]
    asked: list[int] = []

    def decode(tokens: list[int], **kwargs: object) -> str:
        asked.extend(tokens)
        return words[tokens[0]]

    known = Breaks()
    found = known.of(SimpleNamespace(decode=decode), [*range(8), 1])
    assert found.tolist() == [False, True, True, False, False, True, True, False, True]
    assert known.of(SimpleNamespace(decode=decode), [6, 7]).tolist() == [True, False] and sorted(asked) == [*range(8)]
    assert not known.of(None, [1, 2]).any()
