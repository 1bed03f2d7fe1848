"""Plans of forward passes over packed pools that have a window in full precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from service.sglang_plugin.operators.attention import RequestPlan, contiguous_or_index
from service.sglang_plugin.operators.tree import trees_of
from service.sglang_plugin.operators.window import plan_window
from service.sglang_plugin.quantization.full_rows import FullRows

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

_NONE = slice(0, 0)


def plan_windows(full: FullRows, req_to_token: torch.Tensor, batch: ForwardBatch) -> list[RequestPlan]:
    """One plan for each request, of any pass but an idle one. Mutates what `full` remembers of the pass."""
    plans, slots, places = [], [], []
    for row, start, own in _news(batch):
        window = plan_window(full.shape, row, start, own)
        packed = _NONE if window.packed is None else contiguous_or_index(req_to_token[row, window.packed])
        plans.append(RequestPlan(len(own), packed, window.mask, causal=window.causal, window=window))
        slots.append(req_to_token[row, start + window.kept])
        places.append(window.places)
    full.remember(torch.cat(slots), torch.cat(places))
    return plans


def _news(batch: ForwardBatch) -> list[tuple[int, int, torch.Tensor]]:
    """Each request's row, the tokens before the pass, and which of the new ones see which."""
    rows, lengths, mode = batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), batch.forward_mode
    if mode.is_target_verify():
        return list(zip(rows, lengths, trees_of(batch.spec_info, lengths), strict=True))
    counts = [1] * len(rows) if mode.is_decode() else batch.extend_seq_lens.tolist()
    return [
        (row, length - n, torch.ones(n, n, dtype=torch.bool).tril())
        for row, length, n in zip(rows, lengths, counts, strict=True)
    ]
