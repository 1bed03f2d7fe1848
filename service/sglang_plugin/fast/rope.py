"""Rotary position embedding of the Neox kind, with cosines and sines gathered once a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rotation:
    """Angles of one batch of tokens: `cos` [tokens, 1, dim], and `sin` with its first half negated."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def gather(cls, cos_sin_cache: Tensor, positions: Tensor) -> Rotation:
        """Read the rows `positions` of SGLang's cache [length, dim], whose halves are cosines and sines."""
        cos, sin = cos_sin_cache.index_select(0, positions).chunk(2, -1)
        return cls(torch.cat((cos, cos), -1).unsqueeze(1), torch.cat((-sin, sin), -1).unsqueeze(1))

    def apply(self, heads: Tensor) -> Tensor:
        """Rotate [tokens, heads, dim], which may be strided. Returns a new contiguous tensor."""
        return torch.addcmul(heads * self.cos, torch.roll(heads, heads.shape[-1] // 2, -1), self.sin)


def rope_native(
    original: Callable[..., Any],
    module: Any,
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    offsets: Tensor | None = None,
    fused_set_kv_buffer_arg: Any = None,
) -> Any:
    """AROUND hook of `RotaryEmbedding.forward_native`: float32, Neox style, whole heads, or SGLang's own code."""
    if not _is_plain(module, query, key, fused_set_kv_buffer_arg):
        return original(module, positions, query, key, offsets, fused_set_kv_buffer_arg)
    if offsets is not None:
        positions = positions + offsets
    rotation = Rotation.gather(module.cos_sin_cache, positions.flatten())
    tokens = positions.numel()

    def rotate(x: Tensor) -> Tensor:
        return rotation.apply(x.view(tokens, -1, module.head_size)).reshape(x.shape)

    return rotate(query), rotate(key)


def _is_plain(module: Any, query: Tensor, key: Tensor, fused: Any) -> bool:
    return (
        module.is_neox_style
        and module.rotary_dim == module.head_size
        and query.dtype == key.dtype == module.cos_sin_cache.dtype == torch.float32
        and not hasattr(module, "sin_cos_cache")
        and fused is None
    )
