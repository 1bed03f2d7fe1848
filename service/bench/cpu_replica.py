"""A decoder with the shape of SmolLM2-135M and random weights, on the fast operators and on plain torch ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

from service.sglang_plugin.fast.decoder import Attention, Decoder, DecoderLayer, Linear, Norm, tensor_eps
from service.sglang_plugin.fast.hugepages import collapse
from service.sglang_plugin.fast.onednn import PackedWeight
from service.sglang_plugin.fast.onednn import linear as packed_linear


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama-like model; the defaults are those of SmolLM2-135M."""

    layers: int = 30
    hidden: int = 576
    heads: int = 9
    kv_heads: int = 3
    dim: int = 64
    intermediate: int = 1536
    vocabulary: int = 49152
    context: int = 256

    def linears(self) -> dict[str, tuple[int, int]]:
        """Name to (outputs, inputs) of the linear layers of one layer."""
        return {
            "qkv": ((self.heads + 2 * self.kv_heads) * self.dim, self.hidden),
            "out": (self.hidden, self.heads * self.dim),
            "gate_up": (2 * self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate),
        }


@dataclass(frozen=True, slots=True)
class Replica:
    """Random weights and key-value caches. All tensors are float32 unless converted with `plain_step`."""

    shape: Shape
    weights: tuple[dict[str, Tensor], ...]
    table: Tensor
    angles: Tensor
    caches: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def random(cls, shape: Shape, seed: int = 0) -> Replica:
        """Allocates about 0.6 GB for the default shape."""
        make = torch.Generator().manual_seed(seed)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=make) * 0.02

        weights = tuple({name: normal(*size) for name, size in shape.linears().items()} for _ in range(shape.layers))
        cache = (4 * shape.context, shape.kv_heads, shape.dim)
        caches = tuple((normal(*cache), normal(*cache)) for _ in range(shape.layers))
        angles = torch.rand(2 * shape.context, shape.dim // 2, generator=make)
        table = normal(shape.vocabulary, shape.hidden)
        return cls(shape, weights, table, torch.cat((angles.cos(), angles.sin()), -1), caches)

    def attend(self, index: int) -> Attention:
        """Grouped attention of every token to the whole context, after storing the new keys and values."""
        keys, values = self.caches[index]
        shape = self.shape
        group = shape.heads // shape.kv_heads

        def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            tokens, end = query.shape[0], shape.context
            keys[end : end + tokens], values[end : end + tokens] = key, value
            k, v = (c[: end + tokens].transpose(0, 1)[None].to(query.dtype) for c in (keys, values))
            rows = query.view(tokens, shape.kv_heads, group, shape.dim).permute(1, 2, 0, 3)
            rows = rows.reshape(1, shape.kv_heads, group * tokens, shape.dim)
            out = scaled_dot_product_attention(rows, k, v).view(shape.kv_heads, group, tokens, shape.dim)
            return out.permute(2, 0, 1, 3).reshape(tokens, shape.heads * shape.dim)

        return run

    def packed_step(self) -> Callable[[Tensor], Tensor]:
        """Token ids [tokens] -> logits, on the fast decoder. Packs a copy of every weight."""
        shape, norm = self.shape, Norm(torch.ones(self.shape.hidden), tensor_eps(1e-5))
        layers = []
        for weights in self.weights:
            packed = {name: Linear(PackedWeight.pack(weight)) for name, weight in weights.items()}
            layers.append(
                DecoderLayer(
                    input_norm=norm,
                    post_norm=norm,
                    heads=shape.heads,
                    kv_heads=shape.kv_heads,
                    dim=shape.dim,
                    **packed,
                )
            )
        decoder, table = Decoder(tuple(layers), norm, lambda: self.angles), PackedWeight.pack(self.table)
        rows = table.rows_view()
        collapse([table.region(), *(item.weight.region() for layer in layers for item in layer.linears())])

        def step(ids: Tensor) -> Tensor:
            x = embedding(ids, self.table) if rows is None else rows.read(ids)
            hidden, _ = decoder.forward(x, self._positions(ids), self.attend)
            return packed_linear(hidden, table)

        return step

    def plain_step(self, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
        """Token ids [tokens] -> logits, on torch's plain operators in `dtype`. Converts a copy of every weight."""
        weights = [{name: weight.to(dtype) for name, weight in layer.items()} for layer in self.weights]
        table, angles = self.table.to(dtype), self.angles.to(dtype)
        one = torch.ones(self.shape.hidden, dtype=dtype)

        def step(ids: Tensor) -> Tensor:
            x = embedding(ids, table)
            cos, sin = angles[self._positions(ids)].unsqueeze(1).chunk(2, -1)
            for index, layer in enumerate(weights):
                x = self._plain_layer(x, layer, one, cos, sin, self.attend(index))
            return linear(_plain_norm(x, one), table)

        return step

    def _plain_layer(
        self, x: Tensor, w: dict[str, Tensor], one: Tensor, cos: Tensor, sin: Tensor, attend: Attention
    ) -> Tensor:
        shape, tokens = self.shape, x.shape[0]
        qkv = linear(_plain_norm(x, one), w["qkv"]).view(tokens, -1, shape.dim)
        query, key, value = qkv.split([shape.heads, shape.kv_heads, shape.kv_heads], 1)
        query, key = _plain_rope(query, cos, sin), _plain_rope(key, cos, sin)
        x = x + linear(attend(query.reshape(tokens, -1), key, value), w["out"])
        gate, up = linear(_plain_norm(x, one), w["gate_up"]).chunk(2, -1)
        return x + linear(silu(gate) * up, w["down"])

    def _positions(self, ids: Tensor) -> Tensor:
        return torch.arange(self.shape.context, self.shape.context + ids.shape[0])


def _plain_norm(x: Tensor, one: Tensor) -> Tensor:
    return rms_norm(x, (x.shape[-1],), one, 1e-5)


def _plain_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
