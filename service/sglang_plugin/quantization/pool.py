"""A KV pool of SGLang that stores what `service.kvcache.quantizer` packs."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, unwrap_write_loc

from service.kvcache.quantizer import Quantizer
from service.kvcache.rotation import rotation_registry
from service.sglang_plugin.quantization.config import QuantizationConfig


class PackedKvPool(MHATokenToKVPool):
    """Keys and values as uint8 [slots, kv_heads, row_bytes] a layer: what SGLang moves, copies and counts is packed.

    A token's codes depend on its own keys and values alone, so prefixes are shared, drafts verified and rows moved as
    in a pool of floats. Readers get packed rows from `get_key_buffer` and `get_value_buffer` and decode those that
    they read; keys, values and what is computed from them are rotated until `rotated_back`.
    """

    config: ClassVar[QuantizationConfig]

    def _create_buffers_normal(self) -> None:
        self.keys, self.values = (quantizer_of(self.config, dim) for dim in (self.head_dim, self.v_head_dim))
        rotation = rotation_registry().load(self.config.rotation)()
        self._key_rotation, self._value_rotation = (rotation.matrix(dim) for dim in (self.head_dim, self.v_head_dim))
        self.k_buffer, self.v_buffer = (
            [self._zeros(quantizer.row_bytes) for _ in range(self.layer_num)] for quantizer in (self.keys, self.values)
        )

    def _zeros(self, row_bytes: int) -> torch.Tensor:
        # SGLang writes what nobody reads into the page of slot 0.
        shape = (self.size + self.page_size, self.head_num, row_bytes)
        return torch.zeros(shape, dtype=torch.uint8, device=self.device)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """Packed keys of a layer, uint8 [slots, kv_heads, row_bytes]."""
        buffer: torch.Tensor = self.k_buffer[layer_id - self.start_layer]
        return buffer

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        """Packed values of a layer, uint8 [slots, kv_heads, row_bytes]."""
        buffer: torch.Tensor = self.v_buffer[layer_id - self.start_layer]
        return buffer

    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: torch.Tensor, cache_v: torch.Tensor, *scales: Any, **options: Any
    ) -> None:
        """Quantize and store new rows of one layer. Mutates the pool."""
        if any(scale is not None for scale in (*scales, *options.values())):
            raise NotImplementedError("a packed KV pool takes no scales and no layer override of SGLang's")
        slots = unwrap_write_loc(loc_info)[0].long()
        keys, values = cache_k.view(-1, self.head_num, self.head_dim), cache_v.view(-1, self.head_num, self.v_head_dim)
        self.get_key_buffer(layer.layer_id)[slots] = self.keys.encode(_turned(keys, self._key_rotation))
        self.get_value_buffer(layer.layer_id)[slots] = self.values.encode(_turned(values, self._value_rotation))

    def rotated(self, query: torch.Tensor) -> torch.Tensor:
        """Queries [n, heads, dim] as the stored keys are turned."""
        return _turned(query, self._key_rotation)

    def rotated_back(self, out: torch.Tensor) -> torch.Tensor:
        """Sums of stored values [n, heads, dim] as the model knows values."""
        return out if self._value_rotation is None else out @ self._value_rotation.T

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc] = buffer[src_loc]


def quantizer_of(config: QuantizationConfig, dim: int) -> Quantizer:
    """The quantizer of heads of `dim` channels. Raises ValueError where its groups do not fit."""
    return Quantizer(config.bits, dim, config.group or dim)


def _turned(rows: torch.Tensor, rotation: torch.Tensor | None) -> torch.Tensor:
    return rows if rotation is None else rows @ rotation
