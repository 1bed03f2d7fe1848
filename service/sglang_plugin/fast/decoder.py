"""A whole Llama-like decoder as about eighteen torch calls a layer, on packed float32 weights.

Knows nothing of SGLang: attention comes as a function. Written for a few tokens at a time, where a step costs
one reading of the weights plus every Python call; large prompts take the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from service.sglang_plugin.fast.activation import silu_and_mul
from service.sglang_plugin.fast.norm import rms_norm
from service.sglang_plugin.fast.onednn import PackedWeight, linear_add_kernel, linear_kernel, pad_rows
from service.sglang_plugin.fast.rope import Rotation

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(query [tokens, heads * dim], key, value [tokens, kv_heads, dim]) -> [tokens, heads * dim]."""


@dataclass(frozen=True, slots=True)
class Linear:
    """One packed linear layer and its bias, if any."""

    weight: PackedWeight
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Norm:
    """One RMSNorm: its weight [hidden], and epsilon as a float32 tensor of one element."""

    weight: Tensor
    eps: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """The operands of one layer; `heads` and `kv_heads` share the head dimension `dim`."""

    input_norm: Norm
    qkv: Linear
    out: Linear
    post_norm: Norm
    gate_up: Linear
    down: Linear
    heads: int
    kv_heads: int
    dim: int

    def linears(self) -> tuple[Linear, ...]:
        """Its four linear layers, in order."""
        return self.qkv, self.out, self.gate_up, self.down

    def forward(self, x: Tensor, tokens: int, rotation: Rotation, attend: Attention) -> Tensor:
        """x [rows, hidden] -> the same shape, new. The rows after the first `tokens` are padding."""
        matmul, matmul_add = linear_kernel(), linear_add_kernel()
        qkv = matmul(self.input_norm(x), self.qkv.weight.tensor, self.qkv.bias, "none", [], "")
        rotated_heads = self.heads + self.kv_heads
        rotated = rotation.apply(qkv[:, : rotated_heads * self.dim].view(-1, rotated_heads, self.dim))
        query = rotated[:tokens, : self.heads].reshape(tokens, self.heads * self.dim)
        key = rotated[:tokens, self.heads :]
        value = qkv[:tokens, rotated_heads * self.dim :].view(tokens, self.kv_heads, self.dim)
        attended = pad_rows(attend(query, key, value))
        x = matmul_add(attended, x, self.out.weight.tensor, self.out.bias, "add")
        gate_up = matmul(self.post_norm(x), self.gate_up.weight.tensor, self.gate_up.bias, "none", [], "")
        return matmul_add(silu_and_mul(gate_up), x, self.down.weight.tensor, self.down.bias, "add")


@dataclass(frozen=True, slots=True)
class Decoder:
    """All layers, the last norm, and a reader of the rotation table (SGLang's `cos_sin_cache`, which may grow)."""

    layers: tuple[DecoderLayer, ...]
    final_norm: Norm
    cos_sin_cache: Callable[[], Tensor]

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        attention: Callable[[int], Attention],
        captured: Collection[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Hidden states [tokens, hidden] after the last norm, and the inputs of the layers `captured`.

        `attention(i)` gives the attention of layer i. The inputs are not mutated.
        """
        tokens = x.shape[0]
        x = pad_rows(x.contiguous())
        rotation = Rotation.gather(self.cos_sin_cache(), pad(positions, (0, x.shape[0] - tokens)))
        snapshots = []
        for index, layer in enumerate(self.layers):
            if index in captured:
                snapshots.append(x[:tokens].clone())
            x = layer.forward(x, tokens, rotation, attention(index))
        return self.final_norm(x)[:tokens], snapshots


def tensor_eps(value: float) -> Tensor:
    """An epsilon for `Norm`."""
    return torch.tensor([value], dtype=torch.float32)
