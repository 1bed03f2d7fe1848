"""Freed slots are filled with NaN, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from service.sglang_plugin.eviction.poison import poison_freed
from service.sglang_plugin.kv_series import token_bytes


def test_freed_slots_hold_nan_in_every_layer() -> None:
    keys, values = torch.zeros(2, 3, 9, 2, 4)
    pool = SimpleNamespace(
        start_layer=0, layer_num=3, get_key_buffer=lambda i: keys[i], get_value_buffer=lambda i: values[i]
    )
    poison_freed(SimpleNamespace(get_kvcache=lambda: pool), torch.tensor([2, 5], dtype=torch.int32))
    for buffer in (*keys, *values):
        poisoned = buffer.isnan().flatten(1)
        assert poisoned[[2, 5]].all() and not poisoned[[0, 1, 3, 4, 6, 7, 8]].any()
    assert token_bytes(pool) == 2 * 3 * 2 * 4 * 4
