"""Attention on a CPU through torch's scaled_dot_product_attention, with trees, ragged verify and shared prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.mem_cache.memory_pool import KVWriteLoc, MHATokenToKVPool

from service.sglang_plugin.kv_series import pool_series
from service.sglang_plugin.operators.attention import Observer, RequestPlan, attend, contiguous_or_index, rows_of
from service.sglang_plugin.operators.tree import trees_of
from service.sglang_plugin.quantization.planning import plan_windows
from service.sglang_plugin.quantization.pool import PackedKvPool
from service.sglang_plugin.quantization.reading import attend_packed

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner

    from service.sglang_plugin.eviction.evictor import Evictor
    from service.sglang_plugin.selection.reader import PageReader

BACKEND_NAME = "specserve_cpu"


class CpuTreeAttention(AttentionBackend):
    """SGLang attention backend `specserve_cpu`: prefill, chunked prefill, decode, draft extend and tree verify.

    Plans are made once a forward pass on the host and shared by all layers. Models with sliding windows, logit
    caps, cross attention or attention sinks are refused at the first call. With an `evictor` requests read the tokens
    that they still hold, and their policy is shown what it asks for; with a `reader` decode steps read chosen pages.
    """

    def __init__(
        self, model_runner: ModelRunner, evictor: Evictor | None = None, reader: PageReader | None = None
    ) -> None:
        super().__init__()
        self.evictor = evictor
        self.reader = reader
        for helper in (evictor, reader):
            if helper is not None:
                helper.serve(model_runner)
        self.device = model_runner.device
        self.req_to_token_pool = model_runner.req_to_token_pool
        self.token_to_kv_pool = model_runner.token_to_kv_pool
        self.prefill_attention_backend_str = self.decode_attention_backend_str = BACKEND_NAME
        self.packed = self.token_to_kv_pool if isinstance(self.token_to_kv_pool, PackedKvPool) else None
        if self.packed is not None:
            if self.packed.config.windowed:
                width = model_runner.server_args.speculative_num_draft_tokens or 1
                self.packed.open_window(len(self.req_to_token_pool.req_to_token), width)
            pool_series().serve(self.packed)
        self.plans: list[RequestPlan] = []

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Plan the forward pass. Mutates `plans`."""
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.plans = []
        elif self.packed is not None and self.packed.full is not None:
            self.plans = plan_windows(self.packed.full, self.req_to_token_pool.req_to_token, forward_batch)
        elif mode.is_target_verify():
            self.plans = self._plan_verify(forward_batch)
        elif mode.is_decode():
            lengths = forward_batch.seq_lens.tolist()
            self.plans = [
                self._plan_step(row, length)
                for row, length in zip(forward_batch.req_pool_indices.tolist(), lengths, strict=True)
            ]
        else:
            self.plans = self._plan_extend(forward_batch)

    def _slots(self, row: int, length: int) -> slice | torch.Tensor:
        slots = self.req_to_token_pool.req_to_token[row, :length]
        positions = None if self.evictor is None else self.evictor.positions(row, length)
        return contiguous_or_index(slots if positions is None else slots[positions])

    def _plan_step(self, row: int, length: int) -> RequestPlan:
        if self.reader is not None:
            slots = self.req_to_token_pool.req_to_token[row, :length]
            if (read := self.reader.reading(row, slots)) is not None:
                return RequestPlan(1, slots, None, read=read)
        return RequestPlan(1, self._slots(row, length), None, see=self._step_observer(row, length))

    def _step_observer(self, row: int, length: int) -> Observer | None:
        return None if self.evictor is None else self.evictor.step_observer(row, length)

    def _plan_extend(self, forward_batch: ForwardBatch) -> list[RequestPlan]:
        if (row := getattr(forward_batch, "specserve_ahead", None)) is not None:
            return [self._plan_ahead(row, forward_batch)]
        plans = []
        rows, lengths = forward_batch.req_pool_indices.tolist(), forward_batch.seq_lens.tolist()
        for row, length, new in zip(rows, lengths, forward_batch.extend_seq_lens.tolist(), strict=True):
            slots = self._slots(row, length)
            see = None if self.evictor is None else self.evictor.chunk_observer(row, length)
            if new == length:
                plans.append(RequestPlan(new, slots, None, causal=new > 1, see=see))
            else:
                mask = torch.ones(new, length, dtype=torch.bool).tril(length - new) if new > 1 else None
                plans.append(RequestPlan(new, slots, mask, see=see))
        return plans

    def _plan_ahead(self, row: int, forward_batch: ForwardBatch) -> RequestPlan:
        """Stand-ins behind a whole text: their slots are in no row; see `eviction.lookahead`."""
        assert self.evictor is not None
        new, total = forward_batch.extend_num_tokens, int(forward_batch.seq_lens[0])
        slots = torch.cat((self.req_to_token_pool.req_to_token[row, : total - new].long(), forward_batch.out_cache_loc))
        mask = torch.ones(new, total, dtype=torch.bool).tril(total - new)
        return RequestPlan(new, slots, mask, see=self.evictor.rows[row].statistics.see_ahead)

    def _plan_verify(self, forward_batch: ForwardBatch) -> list[RequestPlan]:
        rows, lengths = forward_batch.req_pool_indices.tolist(), forward_batch.seq_lens.tolist()
        plans = []
        for row, length, tree in zip(rows, lengths, trees_of(forward_batch.spec_info, lengths), strict=True):
            n = len(tree)
            visible = length if self.evictor is None else self.evictor.held(row, length)
            mask = torch.cat((torch.ones(n, visible, dtype=torch.bool), tree), 1) if n > 1 else None
            see = self._step_observer(row, length + 1)
            plans.append(RequestPlan(n, self._slots(row, length + n), mask, see=see))
        return plans

    def forward_extend(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Prefill, chunked prefill, draft extend and verify; see `_run`."""
        return self._run(*args, **kwargs)

    def forward_decode(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One token a request; see `_run`."""
        return self._run(*args, **kwargs)

    def _run(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **unsupported: Any,
    ) -> torch.Tensor:
        """Store the new keys and values, then attend per request: [tokens, heads * dim] -> the same shape."""
        refuse_unsupported(layer, unsupported)
        pool = self.token_to_kv_pool
        keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
        if save_kv_cache and k is not None and v is not None:
            self._store(layer, forward_batch.out_cache_loc, keys, values, k, v)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        outputs, start = [], 0
        for plan in self.plans:
            own = slice(start, start + plan.queries)
            if self.packed is None:
                outputs.append(_attend(plan, layer, query[own], keys, values))
            else:
                new = None if k is None or v is None else self.packed.rows_of_model(k, v, own)
                outputs.append(attend_packed(self.packed, plan, layer.layer_id, query[own], new, layer.scaling))
            start += plan.queries
        out = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return out.reshape(-1, layer.tp_q_head_num * layer.v_head_dim)

    def _store(
        self,
        layer: RadixAttention,
        locations: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> None:
        """Write new rows into one layer's cache; a pool of another kind than SGLang's plain one writes itself."""
        pool = self.token_to_kv_pool
        if type(pool) is MHATokenToKVPool and keys.dtype == k.dtype:
            keys.index_copy_(0, locations.long(), k.view(-1, *keys.shape[1:]))
            values.index_copy_(0, locations.long(), v.view(-1, *values.shape[1:]))
        else:
            pool.set_kv_buffer(layer, KVWriteLoc(locations, None), k, v)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """SGLang calls this in eager mode too; there is nothing to prepare on a CPU."""

    def get_verify_buffers_to_fill_after_draft(self) -> list[None]:
        """No buffers: verify plans are made after the draft."""
        return [None, None]

    def update_verify_buffers_to_fill_after_draft(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to update; see `get_verify_buffers_to_fill_after_draft`."""


def _attend(
    plan: RequestPlan,
    layer: RadixAttention,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """One request's attention in one layer, as its plan says."""
    if plan.read is not None:
        return plan.read(layer.layer_id, query, keys, values, layer.scaling)
    visible, values = rows_of(keys, plan.slots), rows_of(values, plan.slots)
    if visible.dtype != query.dtype:
        # A cache of fewer bits than the model computes with, such as kv.dtype bfloat16.
        visible, values = visible.to(query.dtype), values.to(query.dtype)
    out = attend(query, visible, values, plan, layer.scaling)
    if plan.see is not None:
        plan.see(layer.layer_id, query, visible, layer.scaling)
    return out


def refuse_unsupported(layer: RadixAttention, extras: dict[str, Any]) -> None:
    """Raise NotImplementedError for attention variants that this backend would compute wrongly."""
    window = getattr(layer, "sliding_window_size", None)
    if window is not None and window > 0:
        raise NotImplementedError(f"{BACKEND_NAME} has no sliding-window attention; use a model without it")
    if getattr(layer, "logit_cap", 0) or getattr(layer, "is_cross_attention", False):
        raise NotImplementedError(f"{BACKEND_NAME} has no logit cap or cross attention; use a Llama-family model")
    if any(value is not None for value in extras.values()):
        raise NotImplementedError(f"{BACKEND_NAME} does not know {sorted(extras)}; use a Llama-family model")
