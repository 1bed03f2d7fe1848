"""What every eviction policy must do, over the table of all of them, and what each is for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import UnknownNameError
from service.kvcache.eviction import EVICTORS, CacheView, TokenEvictionPolicy, eviction_registry
from service.kvcache.evictors.dapq import DapQ
from service.kvcache.evictors.dynsplit import DynSplit
from service.kvcache.evictors.fastkv import FastKv
from service.kvcache.evictors.h2o import HeavyHitters
from service.kvcache.evictors.snapkv import SnapKv
from service.kvcache.evictors.streaming import Streaming
from service.kvcache.scoring import ScoredTokens
from service.sglang_plugin.operators.attention import RequestPlan, attend
from tests.kvcache.views import random_view

SCORED = [name for name in EVICTORS if name != "none"]


def policy_of(name: str, **options: object) -> TokenEvictionPolicy:
    return eviction_registry().load(name)(**options)


@pytest.mark.parametrize("name", EVICTORS)
@given(held=st.integers(1, 80), more=st.integers(0, 40), room=st.integers(0, 9), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_a_budget_of_all_keeps_all(name: str, held: int, more: int, room: int, seed: int) -> None:
    policy = policy_of(name)
    view = random_view(policy, held, held + more, seed)
    assert policy.keep(view, held + room).tolist() == list(range(held))


@pytest.mark.parametrize("name", SCORED)
@given(
    held=st.integers(20, 120),
    more=st.integers(0, 50),
    sinks=st.integers(0, 5),
    recent=st.integers(1, 12),
    room=st.integers(0, 30),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_sinks_and_recent_tokens_stay_and_the_budget_is_used(
    name: str, held: int, more: int, sinks: int, recent: int, room: int, seed: int
) -> None:
    policy = policy_of(name, sinks=sinks, recent=recent)
    view = random_view(policy, held, held + more, seed)
    budget = min(policy.least_budget() + room, held)
    kept = policy.keep(view, budget)
    assert kept.dtype == torch.int64 and len(kept) == budget
    assert bool((kept[1:] > kept[:-1]).all())
    stays = set(view.positions[kept].tolist())
    always = [p for p in view.positions.tolist() if p < sinks or p >= view.length - recent]
    assert stays.issuperset(always)


@pytest.mark.parametrize("name", SCORED)
def test_a_budget_without_room_is_refused(name: str) -> None:
    policy = policy_of(name)
    with pytest.raises(ValueError, match="no room for 4 sinks and 32 recent"):
        policy.keep(random_view(policy, 100, 100, 0), 35)
    with pytest.raises(ValueError, match="recent 1 or more"):
        policy_of(name, recent=0)


@pytest.mark.parametrize("name", [n for n in SCORED if n != "streaming"])
def test_scores_without_statistics_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="none was observed"):
        policy_of(name).keep(CacheView(torch.arange(100), 100), 50)


@pytest.mark.parametrize("name", EVICTORS)
@pytest.mark.parametrize("heads", [(9, 3), (4, 4)])
def test_attention_over_kept_rows_is_dense_attention_under_a_mask(name: str, heads: tuple[int, int]) -> None:
    policy = policy_of(name)
    view = random_view(policy, 150, 150, 3)
    kept = policy.keep(view, 60)
    torch.manual_seed(1)
    query, (key, value) = torch.randn(1, heads[0], 16), torch.randn(2, 150, heads[1], 16)
    mask = torch.zeros(1, 150, dtype=torch.bool)
    mask[0, kept] = True
    ours = attend(query, key[kept], value[kept], RequestPlan(1, kept, None), 0.25)
    repeated = [rows.repeat_interleave(heads[0] // heads[1], 1).transpose(0, 1) for rows in (key, value)]
    scores = (query.transpose(0, 1) @ repeated[0].mT * 0.25).masked_fill(~mask, float("-inf"))
    dense = (scores.softmax(-1) @ repeated[1]).transpose(0, 1)
    torch.testing.assert_close(ours, dense, atol=1e-5, rtol=0)


def test_streaming_is_sinks_and_window() -> None:
    view = CacheView(torch.arange(100), 100)
    assert Streaming(sinks=2, recent=1).keep(view, 10).tolist() == [0, 1, *range(92, 100)]


def attention_at(
    *tokens: int, layers: int = 4, queries: int = 8, held: int = 100, layer: int | None = None
) -> CacheView:
    attention = torch.zeros(layers, queries, held)
    attention[slice(None) if layer is None else layer, :, list(tokens)] = 1 / len(tokens)
    return CacheView(torch.arange(held), held, attention=attention)


def test_snapkv_keeps_what_is_looked_at_and_its_neighbours() -> None:
    kept = SnapKv(sinks=1, recent=2, kernel=5).keep(attention_at(50), 8).tolist()
    assert kept == [0, 48, 49, 50, 51, 52, 98, 99]


def test_dapq_keeps_what_is_looked_at() -> None:
    assert DapQ(sinks=1, recent=2).keep(attention_at(50, 60), 5).tolist() == [0, 50, 60, 98, 99]


def test_fastkv_asks_its_layer_alone() -> None:
    policy = FastKv(sinks=1, recent=2, kernel=1, depth=0.5)
    assert policy.keep(attention_at(50, 60, layer=2), 5).tolist() == [0, 50, 60, 98, 99]
    # Elsewhere nobody is asked: of equal tokens the later ones stay.
    assert policy.keep(attention_at(50, 60, layer=1), 5).tolist() == [0, 96, 97, 98, 99]


def split(policy: DynSplit, breaks: list[int], onset: dict[int, float], held: int = 100) -> list[int]:
    columns = torch.zeros(2, held)
    columns[0, breaks] = 1
    for column, share in onset.items():
        columns[1, column] = share
    view = replace(attention_at(50, held=held), breaks=columns[0].bool(), onset=columns[1])
    ends = list(policy.ends(view))
    assert ends == sorted(set(ends)) and ends[-1] == held
    return ends


def test_dynsplit_splits_evenly_without_breaks() -> None:
    assert split(DynSplit(longest=25), [], {}) == [25, 50, 75, 100]


def test_dynsplit_ends_blocks_at_the_break_behind_which_attention_stays() -> None:
    policy = DynSplit(shortest=4, longest=20)
    # Breaks at 2 (too near), 9 and 15; behind 9 the next queries look back less than behind 15.
    assert split(policy, [2, 9, 15], {10: 0.9, 16: 0.4, 3: 1.0})[:2] == [10, 16]
    assert split(policy, [2, 9, 15], {10: 0.2, 16: 0.4, 3: 1.0})[0] == 16
    assert split(policy, [30], {31: 0.9})[:2] == [20, 31]


def test_dynsplit_keeps_whole_blocks() -> None:
    view = attention_at(*range(51, 55))
    breaks = torch.zeros(100, dtype=torch.bool)
    breaks[[39, 49, 59]] = True
    view = replace(view, breaks=breaks, onset=torch.rand(100))
    kept = DynSplit(sinks=1, recent=2, longest=10, shortest=10).keep(view, 13).tolist()
    assert kept == [0, *range(50, 60), 98, 99]


def test_dynsplit_tells_bad_sizes_and_missing_breaks() -> None:
    with pytest.raises(ValueError, match="shortest must be 1 or more"):
        DynSplit(shortest=9, longest=8)
    with pytest.raises(ValueError, match="none was observed"):
        DynSplit().keep(attention_at(50), 50)


def test_h2o_keeps_heavy_hitters_and_half_recent() -> None:
    mass = torch.zeros(100)
    mass[[20, 40]] = 1.0
    view = CacheView(torch.arange(100), 100, mass=mass)
    assert HeavyHitters(sinks=1, recent=1).keep(view, 6).tolist() == [0, 20, 40, 97, 98, 99]


def test_a_policy_is_one_pure_function() -> None:
    class Even(ScoredTokens):
        def score(self, view: CacheView) -> torch.Tensor:
            return (view.positions % 2 == 0).float()

    assert Even(sinks=1, recent=1).keep(CacheView(torch.arange(9), 9), 4).tolist() == [0, 4, 6, 8]


def test_names_are_known_without_torch() -> None:
    with pytest.raises(UnknownNameError, match="known: .*streaming"):
        eviction_registry().load("nothing")
    code = "import sys; from service.kvcache.eviction import eviction_registry as r; list(r()); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", EVICTORS)
def test_names_equal_file_names(name: str) -> None:
    assert EVICTORS[name].split(":")[0] == f"service.kvcache.evictors.{name}"
