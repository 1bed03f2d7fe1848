"""Asks the policy and tells SGLang: slots go back to its allocator while their request runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from service.kvcache.answer_keys import HELD_KEY
from service.kvcache.eviction import CacheView, eviction_registry
from service.sglang_plugin.eviction.breaks import Breaks
from service.sglang_plugin.eviction.config import EvictionConfig
from service.sglang_plugin.eviction.held import HeldTokens
from service.sglang_plugin.eviction.lookahead import look_ahead
from service.sglang_plugin.eviction.statistics import Statistics
from service.sglang_plugin.kv_series import eviction_series, pool_series
from service.sglang_plugin.operators.attention import Observer
from service.sglang_plugin.request_extras import wants_whole_cache

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.model_executor.model_runner import ModelRunner


@dataclass
class Row:
    """One running request's tokens and statistics; `chosen` is set once its prompt was compressed or was short."""

    held: HeldTokens
    statistics: Statistics
    chosen: bool = False


class Evictor:
    """The pool's policy and the state of its running requests, by row of SGLang's `req_to_token`.

    Lives in the scheduler process, which runs forward passes and its own work in turn (no overlap), so nothing here
    needs a lock. Its methods are hooks; `service.sglang_plugin.eviction.install` lists them.
    """

    def __init__(self, config: EvictionConfig) -> None:
        self.config = config
        self.policy = eviction_registry().load(config.policy)(**config.options)
        if config.budget < self.policy.least_budget():
            least = self.policy.least_budget()
            raise ValueError(f"kv.budget {config.budget} is below sinks and window: set {least} tokens or more")
        self.rows: dict[int, Row] = {}
        self.runner: ModelRunner | None = None
        self._breaks = Breaks()

    def serve(self, runner: ModelRunner) -> None:
        """The attention backend tells whose KV it reads. Mutates, and lets the pool copy rows without speculation."""
        self.runner = runner
        pool_series().serve(runner.token_to_kv_pool)
        runner.token_to_kv_pool.use_native_move_kv_cache = True

    def concerns(self, req: Req) -> bool:
        """Whether the request may lose tokens: it can outgrow the budget, and did not ask for `kv: full`."""
        longest = len(req.origin_input_ids) + int(req.sampling_params.max_new_tokens)
        return not wants_whole_cache(req) and longest > self.config.budget and req.beam_group is None

    # --- before a prompt is read ---------------------------------------------------------------------------------

    def keep_out_of_tree(self, req: Req, *args: Any, **kwargs: Any) -> None:
        """Before `Req.init_next_round_input`: what is compressed is never shared. Mutates the request."""
        del args, kwargs
        if self.concerns(req):
            req.skip_radix_cache_insert = True

    def limit_prefix(self, original: Any, req: Req, input_len: int) -> int:
        """Around `Req._compute_max_prefix_len`: queries that the policy wants must be computed, not found cached."""
        longest = int(original(req, input_len))
        if not self.concerns(req):
            return longest
        if self.policy.every_query:
            return 0
        own = 0 if self.policy.lookahead else self.policy.window
        return max(0, min(longest, input_len - own))

    def enter(self, result: Any, batch: ScheduleBatch) -> None:
        """After `ScheduleBatch.prepare_for_extend`: rows of new requests exist now. Mutates."""
        del result
        for req in batch.reqs:
            row = req.kv.req_pool_idx
            if row is not None and row not in self.rows and self.concerns(req):
                goal = len(req.full_untruncated_fill_ids)
                self.rows[row] = Row(HeldTokens(), Statistics(self.policy, self._layers(), goal))

    def _layers(self) -> int:
        assert self.runner is not None, "the attention backend is made before requests run"
        return int(self.runner.model_config.num_hidden_layers)

    # --- in a forward pass ---------------------------------------------------------------------------------------

    def positions(self, row: int, length: int) -> torch.Tensor | None:
        """Held positions below `length` of the row's request; None for all of them."""
        state = self.rows.get(row)
        return None if state is None or state.held.whole else state.held.positions(length)

    def held(self, row: int, length: int) -> int:
        """Tokens that the row's request holds of its first `length`."""
        state = self.rows.get(row)
        return length if state is None else state.held.count(length)

    def chunk_observer(self, row: int, end: int) -> Observer | None:
        """Who looks at a piece of a prompt that ends at `end`; None when nobody has to."""
        state = self.rows.get(row)
        return state.statistics.see_chunk if state is not None and state.statistics.wants_chunk(end) else None

    def step_observer(self, row: int, length: int) -> Observer | None:
        """Who looks at a decode step whose newest token is the last of `length`; None when nobody has to.

        A window of queries is gathered only when the policy will soon be asked.
        """
        state = self.rows.get(row)
        if state is None:
            return None
        held = state.held.count(length)
        near = held + self.policy.window >= self.config.budget + self.config.interval
        if not (self.policy.every_query or (self.policy.window > 0 and near)):
            return None

        def see(layer: int, query: torch.Tensor, keys: torch.Tensor, scale: float) -> None:
            # Of a verify step only the last committed token is sure to stay: its query, and the keys up to itself.
            state.statistics.see_step(layer, query[:1], keys[:held], scale)

        return see

    # --- between forward passes ----------------------------------------------------------------------------------

    def choose(self, result: Any, processor: Any, batch: ScheduleBatch, *args: Any, **kwargs: Any) -> None:
        """After `process_batch_result_prefill` and `_decode`: evict where it is due. Mutates requests and pools."""
        del result, args, kwargs
        for req in batch.reqs:
            if req.kv.holds_kv and not req.finished() and (state := self.rows.get(req.kv.req_pool_idx)) is not None:
                self._choose_for(req, state, processor.tree_cache)
        eviction_series().missing(sum(state.held.holes(0) for state in self.rows.values()))

    def _choose_for(self, req: Req, state: Row, cache: Any) -> None:
        length = int(req.kv.kv_committed_len)
        if length < state.statistics.goal:
            return
        first = not state.chosen
        due = self.config.budget + (1 if first else self.config.interval)
        if state.held.count(length) < due:
            state.chosen = True
            return
        if first and self.policy.lookahead and not self._look_ahead(req, cache):
            return
        view = self._view(req, state, length, cache)
        if self.policy.window and view.attention is None:
            return
        ask = self.policy.after_prefill if first else self.policy.in_decode
        indices = ask(view, self.config.budget)
        state.chosen = True
        if len(indices) < view.held:
            self._evict(req, state, view, indices, cache)

    def _look_ahead(self, req: Req, cache: Any) -> bool:
        """Whether the stand-ins could be read; they need room for their KV, else the next step tries again."""
        assert self.runner is not None
        slots = cache.token_to_kv_pool_allocator.alloc(self.policy.lookahead)
        if slots is None:
            return False
        tokens = [*req.origin_input_ids, *req.output_ids][: req.kv.kv_committed_len]
        look_ahead(self.runner, req.kv.req_pool_idx, tokens, slots)
        cache.token_to_kv_pool_allocator.free(slots)
        return True

    def _view(self, req: Req, state: Row, length: int, cache: Any) -> CacheView:
        positions = state.held.positions(length)
        keys = None
        if self.policy.wants_keys:
            slots = cache.req_to_token_pool.req_to_token[req.kv.req_pool_idx][positions].long()
            pool = cache.token_to_kv_pool_allocator.get_kvcache()
            keys = torch.stack([pool.get_key_buffer(layer)[slots] for layer in range(state.statistics.layers)])
        breaks = None
        if self.policy.wants_breaks:
            tokens = [*req.origin_input_ids, *req.output_ids]
            breaks = self._breaks.of(req.tokenizer, [tokens[position] for position in positions.tolist()])
        held, seen = len(positions), state.statistics
        return CacheView(positions, length, seen.attention(held), seen.mass_of(held), keys, seen.onset_of(held), breaks)

    def _evict(self, req: Req, state: Row, view: CacheView, indices: torch.Tensor, cache: Any) -> None:
        kv, row = req.kv, cache.req_to_token_pool.req_to_token[req.kv.req_pool_idx]
        stays = torch.zeros(view.held, dtype=torch.bool)
        stays[indices] = True
        kept, dropped = view.positions[stays], view.positions[~stays]
        shared = int(kv.cache_protected_len)
        freed = dropped[dropped >= shared]
        slots = row[freed].long()
        row[dropped] = 0
        cache.token_to_kv_pool_allocator.free(slots)
        if shared:
            _leave_tree(req, kept[kept < shared], cache)
        eviction_series().lost(len(dropped))
        state.held.keep(kept, view.length)
        state.statistics.forget_all_but(indices, view.held)

    # --- when SGLang counts and frees ----------------------------------------------------------------------------

    def free_held(self, original: Any, cache: Any, kv: Any, ranges: list[tuple[int, int]]) -> None:
        """Around `BasePrefixCache.free_kv_row`: what was evicted is free already. Mutates the allocator."""
        state = self.rows.get(kv.req_pool_idx)
        if state is None or state.held.whole:
            original(cache, kv, ranges)
            return
        row = cache.req_to_token_pool.req_to_token[kv.req_pool_idx]
        cache.token_to_kv_pool_allocator.free(row[state.held.inside(ranges)].long())

    def private_tokens(self, result: int, kv: Any, page_size: int) -> int:
        """After `kv_private_tokens`: evicted tokens are nobody's."""
        del page_size
        state = self.rows.get(kv.req_pool_idx)
        return result if state is None else result - state.held.holes(int(kv.cache_protected_len))

    def forget(self, pool: Any, req: Req) -> None:
        """Before `ReqToTokenPool.free`: the request's row is given back. Mutates, and tells the request's client."""
        del pool
        state = self.rows.pop(req.kv.req_pool_idx, None)
        if state is not None and req.finished():
            info = req.customized_info if req.customized_info is not None else {}
            info[HELD_KEY] = [state.held.count(max(int(req.kv.kv_committed_len), state.held.upto))] * len(
                req.output_ids
            )
            req.customized_info = info


def _leave_tree(req: Req, kept: torch.Tensor, cache: Any) -> None:
    """Copy kept tokens of a shared prefix to slots of the request's own, and unlock the tree's. Mutates both.

    Without room for the copies the request goes on reading the tree's slots, which then stay locked.
    """
    allocator = cache.token_to_kv_pool_allocator
    slots = allocator.alloc(len(kept))
    if slots is None:
        return
    row = cache.req_to_token_pool.req_to_token[req.kv.req_pool_idx]
    if len(kept):
        allocator.get_kvcache().move_kv_cache(slots, row[kept].long())
        row[kept] = slots.to(row.dtype)
    cache.unlock(req.lock)
    req.lock = None
    req.kv.cache_protected_len = 0
