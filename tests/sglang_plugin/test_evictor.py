"""Slots of requests that lose tokens, on stand-ins for SGLang's pools that notice every double free."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.kvcache.answer_keys import HELD_KEY
from service.sglang_plugin.eviction.config import EvictionConfig
from service.sglang_plugin.eviction.evictor import Evictor

SLOTS = 400


class Allocator:
    """Hands out each slot once at a time; slot i holds the number that was written to it."""

    def __init__(self) -> None:
        self.unused = list(range(1, SLOTS))
        self.content = torch.zeros(SLOTS, dtype=torch.int64)

    def alloc(self, count: int) -> torch.Tensor | None:
        if count > len(self.unused):
            return None
        taken, self.unused = self.unused[:count], self.unused[count:]
        return torch.tensor(taken, dtype=torch.int64)

    def free(self, slots: torch.Tensor) -> None:
        given_back = slots.tolist()
        assert len(set(given_back)) == len(given_back) and not set(given_back) & set(self.unused), "freed twice"
        assert 0 not in given_back, "an evicted slot was freed"
        self.unused += given_back

    def get_kvcache(self) -> Any:
        def move(targets: torch.Tensor, sources: torch.Tensor) -> None:
            self.content[targets] = self.content[sources]

        return SimpleNamespace(move_kv_cache=move)


class Cache:
    """SGLang's prefix cache, row table and allocator, as far as the evictor uses them."""

    def __init__(self) -> None:
        self.token_to_kv_pool_allocator = Allocator()
        self.req_to_token_pool = SimpleNamespace(req_to_token=torch.zeros(4, 200, dtype=torch.int32))
        self.unlocked: list[object] = []

    def unlock(self, lock: object) -> None:
        self.unlocked.append(lock)

    def plain_free(self, cache: Any, kv: Any, ranges: list[tuple[int, int]]) -> None:
        del cache
        row = self.req_to_token_pool.req_to_token[kv.req_pool_idx]
        for start, end in ranges:
            self.token_to_kv_pool_allocator.free(row[start:end].long())


class Run:
    """One request's life: a prompt of `prompt` tokens, the first `shared` of them from the tree, then steps."""

    def __init__(self, evictor: Evictor, cache: Cache, row: int, prompt: int, shared: int = 0) -> None:
        self.evictor, self.cache = evictor, cache
        self.processor = SimpleNamespace(tree_cache=cache)
        self.req: Any = SimpleNamespace(
            origin_input_ids=list(range(prompt)),
            output_ids=[7],
            full_untruncated_fill_ids=list(range(prompt)),
            sampling_params=SimpleNamespace(max_new_tokens=100, custom_params=None),
            beam_group=None,
            skip_radix_cache_insert=False,
            customized_info=None,
            lock="lock",
            is_done=False,
            kv=SimpleNamespace(
                req_pool_idx=row, holds_kv=True, kv_committed_len=0, kv_allocated_len=0, cache_protected_len=shared
            ),
        )
        self.req.finished = lambda: self.req.is_done
        evictor.keep_out_of_tree(self.req)
        self._grow(prompt)
        evictor.enter(None, SimpleNamespace(reqs=[self.req]))
        self.choose()

    def _grow(self, count: int) -> None:
        kv, allocator = self.req.kv, self.cache.token_to_kv_pool_allocator
        slots = allocator.alloc(count)
        assert slots is not None
        begin = kv.kv_allocated_len
        self.cache.req_to_token_pool.req_to_token[kv.req_pool_idx, begin : begin + count] = slots.int()
        allocator.content[slots] = torch.arange(begin, begin + count)
        kv.kv_allocated_len = kv.kv_committed_len = begin + count

    def choose(self) -> None:
        self.evictor.choose(None, self.processor, SimpleNamespace(reqs=[self.req]))

    def step(self, tokens: int = 1) -> None:
        self._grow(tokens)
        self.req.output_ids += [7] * tokens
        self.choose()

    def readable(self) -> list[int]:
        """The tokens whose slots the request reads."""
        kv = self.req.kv
        row = self.cache.req_to_token_pool.req_to_token[kv.req_pool_idx, : kv.kv_committed_len]
        positions = self.evictor.positions(kv.req_pool_idx, kv.kv_committed_len)
        slots = row if positions is None else row[positions]
        found: list[int] = self.cache.token_to_kv_pool_allocator.content[slots.long()].tolist()
        return found

    def private(self) -> int:
        kv = self.req.kv
        return self.evictor.private_tokens(kv.kv_allocated_len - kv.cache_protected_len, kv, 1)

    def release(self, *, done: bool, owned: int | None = None) -> None:
        kv = self.req.kv
        self.req.is_done = done
        owned = kv.kv_committed_len if owned is None else owned
        self.evictor.free_held(self.cache.plain_free, self.cache, kv, [(kv.cache_protected_len, owned)])
        self.evictor.free_held(self.cache.plain_free, self.cache, kv, [(owned, kv.kv_allocated_len)])
        self.evictor.forget(None, self.req)


def evictor(budget: int = 20, interval: int = 4, policy: str = "streaming") -> Evictor:
    made = Evictor(EvictionConfig(policy, budget, interval, {"sinks": 2, "recent": 8}))
    made.runner = SimpleNamespace(model_config=SimpleNamespace(num_hidden_layers=1))  # type: ignore[assignment]
    return made


def test_a_long_prompt_is_cut_and_its_slots_are_free_at_once() -> None:
    cache = Cache()
    run = Run(evictor(), cache, 1, 50)
    assert run.req.skip_radix_cache_insert
    assert run.readable() == [0, 1, *range(32, 50)] and run.private() == 20
    assert len(cache.token_to_kv_pool_allocator.unused) == SLOTS - 1 - 20
    for _ in range(3):
        run.step()
    assert len(run.readable()) == 23
    run.step()
    assert run.readable() == [0, 1, *range(36, 54)]
    run.release(done=True)
    assert len(cache.token_to_kv_pool_allocator.unused) == SLOTS - 1
    assert run.req.customized_info[HELD_KEY] == [20] * 5


def test_requests_that_fit_or_ask_are_left_alone() -> None:
    made = evictor(budget=200)
    run = Run(made, Cache(), 1, 50)
    assert not run.req.skip_radix_cache_insert and not made.rows
    run.req.sampling_params.custom_params = {"specserve": {"kv": "full"}}
    assert not evictor().concerns(run.req)
    run.req.sampling_params.custom_params = None
    assert evictor().concerns(run.req)
    assert evictor().limit_prefix(lambda _req, length: length - 1, run.req, 50) == 49
    assert evictor(policy="h2o").limit_prefix(lambda _req, length: length - 1, run.req, 50) == 0
    assert evictor(budget=60, policy="snapkv").limit_prefix(lambda _req, length: length - 1, run.req, 50) == 18


def test_a_shared_prefix_is_left_to_the_tree() -> None:
    cache = Cache()
    run = Run(evictor(), cache, 1, 50, shared=30)
    assert cache.unlocked == ["lock"] and run.req.kv.cache_protected_len == 0
    assert run.readable() == [0, 1, *range(32, 50)] and run.private() == 20
    run.release(done=False)
    # The tree still holds its 30.
    assert len(cache.token_to_kv_pool_allocator.unused) == SLOTS - 1 - 30


def test_without_room_for_copies_the_tree_is_read_on() -> None:
    cache = Cache()
    made = Evictor(EvictionConfig("streaming", 20, 4, {"sinks": 18, "recent": 1}))
    made.runner = SimpleNamespace(model_config=SimpleNamespace(num_hidden_layers=1))  # type: ignore[assignment]
    allocator = cache.token_to_kv_pool_allocator
    allocator.unused = allocator.unused[:50]
    run = Run(made, cache, 1, 50, shared=45)
    assert cache.unlocked == [] and run.req.kv.cache_protected_len == 45
    assert run.readable() == [*range(18), 48, 49] and run.private() == 2
    run.release(done=False)
    assert len(allocator.unused) == 5


def test_a_policy_needs_its_budget() -> None:
    with pytest.raises(ValueError, match="kv.budget 9 is below sinks and window: set 10 tokens or more"):
        evictor(budget=9)


Life = st.tuples(
    st.integers(1, 60), st.integers(0, 59), st.lists(st.integers(1, 6), max_size=12), st.booleans(), st.integers(0, 3)
)


@given(lives=st.lists(Life, min_size=1, max_size=6))
@settings(deadline=None, max_examples=60)
def test_every_slot_comes_back_once(lives: list[tuple[int, int, list[int], bool, int]]) -> None:
    cache, made, expected = Cache(), evictor(), SLOTS - 1
    for number, (prompt, shared, steps, done, unread) in enumerate(lives):
        shared = min(shared, prompt - 1)
        cache.token_to_kv_pool_allocator.unused.sort()
        if len(cache.token_to_kv_pool_allocator.unused) < 150:
            break
        run = Run(made, cache, number % 4, prompt, shared)
        for tokens in steps:
            run.step(tokens)
            kv = run.req.kv
            held = run.readable()
            assert held[-1] == kv.kv_committed_len - 1 and held == sorted(held)
            assert len(held) < 20 + 4 + 6
        end = run.req.kv.kv_committed_len
        run.release(done=done, owned=max(end - unread, run.req.kv.cache_protected_len))
        expected -= shared
        assert not made.rows and len(cache.token_to_kv_pool_allocator.unused) == expected
