"""What every page selector must do, and what each is for."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.kvcache.pages import LayerPages
from service.kvcache.selection import SELECTORS, PageSelector, selector_registry
from service.kvcache.selectors.async_spade import AsyncSpade
from service.kvcache.selectors.locks import Locks
from service.kvcache.selectors.quest import Quest

PAGE, HEADS, KV_HEADS, DIM, SCALE = 4, 6, 2, 8, 0.35


def selector(name: str) -> PageSelector:
    return selector_registry().load(name)()


def pages_of(made: PageSelector, keys: torch.Tensor, *lengths: int) -> LayerPages:
    pages = LayerPages(made, PAGE)
    for length in lengths or (len(keys),):
        pages.fill(length, lambda start, end: keys[start:end])
    return pages


def exact_mass(query: torch.Tensor, keys: torch.Tensor, page: int = PAGE) -> torch.Tensor:
    """Each full page's share of the attention over full pages, mean over a group's heads: [kv_heads, pages]."""
    full = len(keys) // page * page
    grouped = query.view(KV_HEADS, -1, DIM)
    shares = (torch.einsum("hgd,thd->hgt", grouped, keys[:full]) * SCALE).softmax(-1)
    return shares.view(KV_HEADS, -1, full // page, page).sum(-1).mean(1)


@pytest.mark.parametrize("name", SELECTORS)
@given(length=st.integers(PAGE, 70), budget=st.integers(1, 80), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_first_page_newest_page_and_open_page_are_read(name: str, length: int, budget: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(length, KV_HEADS, DIM, generator=generator)
    query = torch.randn(HEADS, DIM, generator=generator)
    read = pages_of(selector(name), keys).choose(query, SCALE, budget, length)
    full = length // PAGE * PAGE
    always = {*range(PAGE), *range(full - PAGE, length)}
    for positions in read.tolist():
        assert positions == sorted(set(positions)) and always <= set(positions)
        assert len(positions) <= max(budget, 3 * PAGE + PAGE - 1)
    if budget >= length:
        assert all(positions == list(range(length)) for positions in read.tolist())


@pytest.mark.parametrize("name", SELECTORS)
def test_summaries_do_not_depend_on_when_they_are_made(name: str) -> None:
    torch.manual_seed(0)
    keys, query = torch.randn(40, KV_HEADS, DIM), torch.randn(HEADS, DIM)
    at_once = pages_of(selector(name), keys).choose(query, SCALE, 20, 40)
    in_turn = pages_of(selector(name), keys, 3, 9, 11, 25, 40).choose(query, SCALE, 20, 40)
    assert torch.equal(at_once, in_turn)


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("page", [4, 16])
def test_the_size_of_a_summary_is_told(name: str, page: int) -> None:
    made = selector(name)
    summaries = made.summarize(torch.randn(3, page, KV_HEADS, 64))
    assert summaries.numel() == 3 * KV_HEADS * made.summary_size(page, 64)


def test_quest_bounds_every_key() -> None:
    torch.manual_seed(0)
    keys, query = torch.randn(40, KV_HEADS, DIM), torch.randn(HEADS, DIM)
    made = Quest()
    bound = made.score(query, made.summarize(keys.view(-1, PAGE, KV_HEADS, DIM)), SCALE, query[None, :0])
    scores = torch.einsum("hgd,thd->hgt", query.view(KV_HEADS, -1, DIM), keys) * SCALE
    highest = scores.amax(1).view(KV_HEADS, -1, PAGE).amax(-1)
    assert bool((bound >= highest - 1e-5).all())
    # A page of one key is bounded by itself.
    alone = made.score(query, made.summarize(keys.view(-1, 1, KV_HEADS, DIM)), SCALE, query[None, :0])
    torch.testing.assert_close(alone, scores.amax(1))


@pytest.mark.parametrize(("rank", "page"), [(4, 4), (8, 4), (99, 4), (8, 16), (12, 16), (99, 16)])
def test_locks_of_full_rank_is_exact(rank: int, page: int) -> None:
    torch.manual_seed(0)
    keys, query = torch.randn(48, KV_HEADS, DIM), torch.randn(HEADS, DIM)
    made = Locks(rank)
    found = made.score(query, made.summarize(keys.view(-1, page, KV_HEADS, DIM)), SCALE, query[None, :0])
    torch.testing.assert_close(found, exact_mass(query, keys, page))


def test_locks_of_low_rank_finds_pages_of_low_rank() -> None:
    torch.manual_seed(0)
    # Pages whose keys differ in two directions.
    base, spread = torch.randn(16, 1, KV_HEADS, DIM), torch.randn(16, 2, KV_HEADS, DIM)
    mix = torch.randn(16, PAGE, 2)
    keys = (base + torch.einsum("ptr,prhd->pthd", mix, spread)).reshape(-1, KV_HEADS, DIM)
    query = torch.randn(HEADS, DIM)
    made = Locks(2)
    found = made.score(query, made.summarize(keys.view(-1, PAGE, KV_HEADS, DIM)), SCALE, query[None, :0])
    torch.testing.assert_close(found, exact_mass(query, keys))


def test_locks_catches_more_mass_than_quest() -> None:
    torch.manual_seed(0)
    caught = {"quest": 0.0, "locks": 0.0}
    for _ in range(20):
        keys, query = torch.randn(160, KV_HEADS, DIM), 3 * torch.randn(HEADS, DIM)
        mass = exact_mass(query, keys)
        for name, made in (("quest", Quest()), ("locks", Locks(2))):
            summaries = made.summarize(keys.view(-1, PAGE, KV_HEADS, DIM))
            top = made.score(query, summaries, SCALE, query[None, :0]).topk(8, 1).indices
            caught[name] += float(mass.gather(1, top).sum())
    assert caught["locks"] > caught["quest"]


def test_async_spade_foresees_what_follows_a_rule() -> None:
    torch.manual_seed(0)
    queries = [torch.randn(HEADS, DIM), torch.randn(HEADS, DIM), torch.randn(HEADS, DIM)]
    while len(queries) < 17:
        queries.append(0.6 * queries[-1] - 0.8 * queries[-2] + 0.5 * queries[-3])
    predicted = AsyncSpade(ridge=1e-6).predict(torch.stack(queries[:-1]))
    torch.testing.assert_close(predicted, queries[-1], atol=1e-2, rtol=1e-2)


def test_async_spade_does_not_look_at_the_query_itself() -> None:
    torch.manual_seed(0)
    made, history = AsyncSpade(), torch.randn(10, HEADS, DIM)
    summaries = made.summarize(torch.randn(10, PAGE, KV_HEADS, DIM))
    scores = [made.score(torch.randn(HEADS, DIM), summaries, SCALE, history) for _ in range(2)]
    assert torch.equal(*scores)
    short = made.score(torch.randn(HEADS, DIM), summaries, SCALE, history[:2])
    assert torch.equal(short, Quest().score(history[1], summaries, SCALE, history[:0]))


@pytest.mark.parametrize("name", SELECTORS)
def test_names_equal_file_names(name: str) -> None:
    assert SELECTORS[name].split(":")[0] == f"service.kvcache.selectors.{name}"


def test_names_are_known_without_torch() -> None:
    code = "import sys; from service.kvcache.selection import selector_registry as r; list(r()); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
