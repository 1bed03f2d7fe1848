"""Attention of one request on a CPU, over rows of a paged KV cache. Imports no sglang."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from service.sglang_plugin.operators.window import WindowPlan

Observer = Callable[[int, torch.Tensor, torch.Tensor, float], None]
"""Is shown a layer's number, queries [n, heads, dim], visible keys [length, kv_heads, dim] and the scale."""
Reading = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]
"""Attends in its own way: a layer's number, queries, that layer's whole key and value cache, the scale."""
GROUPED_QUERIES = 64
"""Up to this many queries a request's query heads are folded into rows of their KV head, which copies no KV."""


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """What one request attends to in one forward pass.

    `slots` are the KV slots of its whole visible text, a slice when they are contiguous, else int64 [length].
    `mask` is bool [queries, length], None when every query sees every slot (or, with `causal`, all up to itself).
    `see` is shown every layer's queries and keys. `read`, where there is one, attends in place of `attend`. With a
    `window` (packed pools) `slots` are those of the rows that are read packed, and the mask is the window's.
    """

    queries: int
    slots: slice | torch.Tensor
    mask: torch.Tensor | None
    causal: bool = False
    see: Observer | None = None
    read: Reading | None = None
    window: WindowPlan | None = None


def contiguous_or_index(slots: torch.Tensor) -> slice | torch.Tensor:
    """A slice when the slots follow each other (no gather needed), else the int64 index."""
    first, length = int(slots[0]), slots.numel()
    if int(slots[-1]) - first == length - 1 and bool((slots[1:] - slots[:-1] == 1).all()):
        return slice(first, first + length)
    return slots.long()


def rows_of(cache: torch.Tensor, slots: slice | torch.Tensor) -> torch.Tensor:
    """A request's rows of one layer's cache: a view for contiguous slots, else a copy. [length, kv_heads, dim]."""
    # index_select copies whole rows; indexing with a tensor takes six times as long for the same copy.
    return cache[slots] if isinstance(slots, slice) else cache.index_select(0, slots)


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: RequestPlan, scale: float
) -> torch.Tensor:
    """Attention of one request: query [n, heads, dim], key and value [length, kv_heads, dim] -> [n, heads, dim]."""
    n, heads, dim = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    k, v = key.transpose(0, 1)[None], value.transpose(0, 1)[None]
    if n == 1:
        out = scaled_dot_product_attention(query.view(1, kv_heads, group, dim), k, v, scale=scale)
        return out.reshape(1, heads, -1)
    if n <= GROUPED_QUERIES and not plan.causal:
        rows = query.view(n, kv_heads, group, dim).permute(1, 2, 0, 3).reshape(1, kv_heads, group * n, dim)
        mask = None if plan.mask is None else plan.mask.repeat(group, 1)
        out = scaled_dot_product_attention(rows, k, v, attn_mask=mask, scale=scale)
        return out.view(kv_heads, group, n, -1).permute(2, 0, 1, 3).reshape(n, heads, -1)
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    q = query.transpose(0, 1)[None]
    out = scaled_dot_product_attention(q, k, v, attn_mask=plan.mask, is_causal=plan.causal, scale=scale)
    return out[0].transpose(0, 1)
