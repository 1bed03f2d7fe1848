"""Attention of one request over packed rows, and over those in full precision where the pool has them."""

from __future__ import annotations

import torch

from service.sglang_plugin.operators.attention import RequestPlan, attend, rows_of
from service.sglang_plugin.quantization.pool import PackedKvPool


def attend_packed(
    pool: PackedKvPool,
    plan: RequestPlan,
    layer: int,
    query: torch.Tensor,
    own: tuple[torch.Tensor, torch.Tensor] | None,
    scale: float,
) -> torch.Tensor:
    """Queries [n, heads, dim] and the same tokens' keys and values, packed already: [n, heads, dim].

    Mutates the pool's rows in full precision, where it has a window. A text that these hold whole is read as in a pool
    of floats, bit for bit. Raises NotImplementedError for a pass without keys and values of its own over a window.
    """
    window = plan.window
    if window is None:
        return _turned(pool, plan, layer, query, plan.slots, (), scale)
    assert pool.full is not None, "a plan with a window is made for a pool with one"
    if own is None:
        raise NotImplementedError("a layer that stores no keys has no window; set kv.full_sinks and kv.full_recent 0")
    at = layer - pool.start_layer
    rows = pool.full.extended(at, window.past, *own)
    pool.full.store(at, window.places, own[0][window.kept], own[1][window.kept])
    if window.packed is None:
        return attend(query, *rows, plan, scale)
    return _turned(pool, plan, layer, query, plan.slots, pool.framed(*rows, layer), scale)


def _turned(
    pool: PackedKvPool,
    plan: RequestPlan,
    layer: int,
    query: torch.Tensor,
    slots: slice | torch.Tensor,
    behind: tuple[torch.Tensor, ...],
    scale: float,
) -> torch.Tensor:
    """Attention in the frame of the packed rows in `slots`, with the rows `behind` after them."""
    keys = pool.keys.decode(rows_of(pool.get_key_buffer(layer), slots))
    values = pool.values.decode(rows_of(pool.get_value_buffer(layer), slots))
    if behind:
        keys, values = torch.cat((keys, behind[0])), torch.cat((values, behind[1]))
    return pool.rotated_back(attend(pool.rotated(query, layer), keys, values, plan, scale), layer)
