"""Token embedding and output head on one packed table: also for tied models there is no second copy."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
from torch import Tensor

from service.sglang_plugin.fast.linear import pack_layer, packed_weight, unpack_layer
from service.sglang_plugin.fast.onednn import BlockedRows, linear


class PackedEmbeddingMethod(UnquantizedEmbeddingMethod):
    """Method of an output head, tied to the embedding or not.

    The table is packed for the matrix product. When it is also read by rows (a tied embedding), the rows come
    from the packed memory; if oneDNN's layout cannot be read, the table stays plain and the head is slower.
    """

    def __init__(self, read_rows: bool) -> None:
        self.read_rows = read_rows
        self.rows: BlockedRows | None = None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        if packed_weight(layer) is not None:
            return
        packed = pack_layer(layer)
        if not self.read_rows:
            return
        self.rows = packed.rows_view()
        if self.rows is None:
            unpack_layer(layer)

    def restore_weights_before_loading(self, layer: torch.nn.Module) -> None:
        self.rows = None
        unpack_layer(layer)

    def apply(self, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Logits [rows, vocabulary]. SGLang's logits processor calls this, as the class is not one of its own."""
        packed = packed_weight(layer)
        if packed is None:
            return super().apply(layer, x.to(layer.weight.dtype), bias)
        return linear(x.float(), packed, bias)

    def embedding(self, layer: torch.nn.Module, input_: Tensor) -> Tensor:
        """Rows of the table for int64 token ids of any shape."""
        if self.rows is None:
            return super().embedding(layer, input_)
        return self.rows.read(input_)


def packable_reason(layer: torch.nn.Module) -> str | None:
    """Why an output head must keep its plain table, or None when it can be packed."""
    method: Any = getattr(layer, "quant_method", None)
    if type(method) is not UnquantizedEmbeddingMethod:
        return f"its method is {type(method).__name__}"
    if layer.weight.dtype != torch.float32 or layer.weight.device.type != "cpu":
        return f"its table is {layer.weight.dtype} on {layer.weight.device}"
    return None
