"""Freed slots full of NaN, for tests: whoever reads one, shows it. Imports no sglang."""

from __future__ import annotations

from typing import Any

import torch


def poison_freed(allocator: Any, slots: torch.Tensor) -> None:
    """Before `TokenToKVPoolAllocator.free`: nobody reads these until they are written anew. Mutates the pool."""
    pool, freed = allocator.get_kvcache(), slots.long()
    for layer in range(pool.layer_num):
        pool.get_key_buffer(layer)[freed] = float("nan")
        pool.get_value_buffer(layer)[freed] = float("nan")
