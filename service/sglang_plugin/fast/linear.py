"""SGLang linear layers on packed float32 weights, without a second copy of the weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from torch import Tensor

from service.sglang_plugin.fast.onednn import PackedWeight, linear


def packed_weight(layer: torch.nn.Module) -> PackedWeight | None:
    """The packed weight of a layer, or None while its plain weight is in place."""
    packed: PackedWeight | None = layer.__dict__.get("specserve_packed")
    return packed


def pack_layer(layer: torch.nn.Module) -> PackedWeight:
    """Pack `layer.weight` and release its storage. Mutates the layer; packing again replaces the packed weight.

    The parameter keeps its shape, dtype and loader, but every element reads as NaN from one shared cell: an
    overlooked reader gets loud nonsense, and a writer fails in torch ("unsupported operation: more than one
    element of the written-to tensor refers to a single memory location"), until `unpack_layer` restores it.
    """
    weight = layer.weight
    fresh = PackedWeight.pack(weight.data)
    weight.data = torch.full((), math.nan, dtype=weight.dtype).expand(weight.shape)
    holder: PackedWeight | None = layer.__dict__.get("specserve_holder")
    if holder is None:
        holder = layer.__dict__["specserve_holder"] = fresh
    else:
        holder.tensor = fresh.tensor
    layer.__dict__["specserve_packed"] = holder
    return holder


def unpack_layer(layer: torch.nn.Module) -> None:
    """Give `layer.weight` its dense values back and drop the packed ones. Mutates the layer."""
    packed = layer.__dict__.pop("specserve_packed", None)
    if packed is not None:
        layer.weight.data = packed.unpack()


class PackedLinearMethod(UnquantizedLinearMethod):
    """Replaces SGLang's method on a layer; packs after loading, restores before an update of the weights."""

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        if packed_weight(layer) is None:
            pack_layer(layer)

    def restore_weights_before_loading(self, layer: torch.nn.Module) -> None:
        unpack_layer(layer)

    def apply(self, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        packed = packed_weight(layer)
        if packed is None or x.dtype != torch.float32:
            return super().apply(layer, x, bias)
        return linear(x, packed, bias)

    def apply_into(self, layer: torch.nn.Module, x: Tensor, output: Tensor, bias: Tensor | None = None) -> Tensor:
        return output.copy_(self.apply(layer, x, bias))

    def apply_with_addend(
        self, layer: torch.nn.Module, x: Tensor, addend: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        return self.apply(layer, x, bias).add_(addend)


def packable_reason(layer: torch.nn.Module) -> str | None:
    """Why a linear layer must keep its plain weight, or None when it can be packed."""
    method: Any = getattr(layer, "quant_method", None)
    if type(method) is not UnquantizedLinearMethod:
        return f"its method is {type(method).__name__}"
    weight = getattr(layer, "weight", None)
    if weight is None or weight.dim() != 2:
        return "it has no weight matrix"
    if weight.dtype != torch.float32:
        return f"its weight is {weight.dtype}"
    if weight.device.type != "cpu":
        return f"its weight is on {weight.device}"
    return None
