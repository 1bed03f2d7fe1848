"""A KV pool of SGLang that stores what `service.kvcache.quantizer` packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, unwrap_write_loc

from service.kvcache.quantizer import Quantizer
from service.kvcache.rotation import Kind, Rotation, make_rotation
from service.sglang_plugin.operators.window import WindowShape
from service.sglang_plugin.quantization.config import QuantizationConfig
from service.sglang_plugin.quantization.full_rows import FullRows


class PackedKvPool(MHATokenToKVPool):
    """Keys and values as uint8 [slots, kv_heads, row_bytes] a layer: what SGLang moves, copies and counts is packed.

    A token's codes depend on its own keys and values alone, so prefixes are shared, drafts verified and rows moved as
    in a pool of floats. Readers get packed rows from `get_key_buffer` and `get_value_buffer` and decode those that
    they read; keys, values and what is computed from them are rotated until `rotated_back`. With a window some rows
    are also in `full`, which only the requests that wrote them read: such pools share no prefixes.
    """

    config: ClassVar[QuantizationConfig]
    full: FullRows | None = None

    def _create_buffers_normal(self) -> None:
        self.keys, self.values = (quantizer_of(self.config, dim) for dim in (self.head_dim, self.v_head_dim))
        rotation = make_rotation(self.config.rotation, self.config.calibration)
        self._key_frames = self._frames(rotation, "keys", self.head_dim)
        self._value_frames = self._frames(rotation, "values", self.v_head_dim)
        self.k_buffer, self.v_buffer = (
            [self._zeros(quantizer.row_bytes) for _ in range(self.layer_num)] for quantizer in (self.keys, self.values)
        )

    def _frames(self, rotation: Rotation, kind: Kind, dim: int) -> list[_Frame]:
        layers = range(self.start_layer, self.start_layer + self.layer_num)
        frames = [_Frame(rotation.centre(layer, kind), rotation.of_layer(layer, kind, dim)) for layer in layers]
        for centre in (frame.centre for frame in frames):
            if centre is not None and centre.shape != (self.head_num, dim):
                raise ValueError(
                    f"the calibration is for {len(centre)} KV heads, and this engine holds {self.head_num}: run "
                    "`specserve calibrate kv` with the pool's model, and keep runtime.tp at 1"
                )
        return frames

    def _zeros(self, row_bytes: int) -> torch.Tensor:
        # SGLang writes what nobody reads into the page of slot 0.
        shape = (self.size + self.page_size, self.head_num, row_bytes)
        return torch.zeros(shape, dtype=torch.uint8, device=self.device)

    def open_window(self, requests: int, width: int) -> None:
        """Make room for the configured rows in full precision of `requests` requests. Mutates; later calls do nothing.

        `width` are the most rows of a verify step, 1 without drafts. Raises ValueError for a window below that.
        """
        if self.full is None:
            shape = WindowShape(self.config.sinks, self.config.recent, width)
            sizes = (self.head_num, self.head_dim), (self.head_num, self.v_head_dim)
            self.full = FullRows(shape, self.layer_num, requests, sizes, self.dtype, self.device)

    @property
    def window_bytes(self) -> int:
        """Bytes of the rows in full precision."""
        return 0 if self.full is None else self.full.bytes

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
        keys, values = self.rows_of_model(cache_k, cache_v, slice(None))
        at = layer.layer_id - self.start_layer
        self.k_buffer[at][slots] = self.keys.encode(self._key_frames[at].into(keys))
        self.v_buffer[at][slots] = self.values.encode(self._value_frames[at].into(values))

    def rows_of_model(self, k: torch.Tensor, v: torch.Tensor, part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Some of the new keys and values of a pass, each [n, kv_heads, dim], as the model gives them."""
        return k.view(-1, self.head_num, self.head_dim)[part], v.view(-1, self.head_num, self.v_head_dim)[part]

    def rotated(self, query: torch.Tensor, layer_id: int) -> torch.Tensor:
        """Queries [n, heads, dim] as the stored keys of the layer are turned."""
        return self._key_frames[layer_id - self.start_layer].turned(query)

    def rotated_back(self, out: torch.Tensor, layer_id: int) -> torch.Tensor:
        """Means of stored values [n, heads, dim] as the model knows values."""
        return self._value_frames[layer_id - self.start_layer].back(out)

    def framed(self, keys: torch.Tensor, values: torch.Tensor, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [n, kv_heads, dim] of the layer as stored ones are turned, not rounded to codes."""
        at = layer_id - self.start_layer
        return self._key_frames[at].into(keys), self._value_frames[at].into(values)

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        if self.full is not None:
            self.full.move(tgt_loc, src_loc)
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc] = buffer[src_loc]


def quantizer_of(config: QuantizationConfig, dim: int) -> Quantizer:
    """The quantizer of heads of `dim` channels. Raises ValueError where its groups do not fit."""
    return Quantizer(config.bits, dim, config.group or dim)


def packed_size(config: QuantizationConfig, size: int, dims: tuple[int, int], itemsize: int) -> int:
    """Bytes of a token that takes `size` bytes as floats of `itemsize`, for keys and values of `dims` channels.

    Raises ValueError where groups do not fit. Rows in full precision are for requests, not tokens: not counted.
    """
    return size * sum(quantizer_of(config, dim).row_bytes for dim in dims) // (sum(dims) * itemsize)


@dataclass(frozen=True)
class _Frame:
    """Where rows of one layer are looked at from: `centre` [kv_heads, dim] and `rotation` [dim, dim], None for none."""

    centre: torch.Tensor | None
    rotation: torch.Tensor | None

    def into(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, kv_heads, dim] as they are stored."""
        return self.turned(rows if self.centre is None else rows - self.centre)

    def turned(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if self.rotation is None else rows @ self.rotation

    def back(self, means: torch.Tensor) -> torch.Tensor:
        """Weighted means of stored rows [n, heads, dim], each KV head's queries side by side, as the model knows."""
        means = means if self.rotation is None else means @ self.rotation.T
        if self.centre is None:
            return means
        return means + self.centre.repeat_interleave(means.shape[1] // len(self.centre), 0)
