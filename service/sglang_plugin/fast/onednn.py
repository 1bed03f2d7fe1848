"""oneDNN linear layers on pre-packed float32 weights: operators of `torch.ops.mkldnn`, nothing of SGLang."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BATCH_HINT = 16
"""Rows that oneDNN lays a weight out for. 4, 8 and 16 give the same layout, the best from 1 to 16 rows and no worse
at 512; 1 gives the plain layout, which is up to twice slower."""

OPERATORS = ("_reorder_linear_weight", "_linear_pointwise", "_nbytes", "data_ptr")


def unavailable_reason() -> str | None:
    """Why packed linears cannot be used in this build of torch, or None when they can."""
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN"
    missing = [name for name in OPERATORS if not hasattr(torch.ops.mkldnn, name)]
    if missing:
        return f"this build of torch lacks torch.ops.mkldnn.{', '.join(missing)}"
    return None


@functools.cache
def min_rows() -> int:
    """Fewer rows than this are padded up to it.

    oneDNN's kernel for a single row may sum in another order (seen with AVX-512 and 1536 inputs), so that a token
    decoded alone would differ in its last bits from the same token verified. With AVX-512 the kernels for 1 and 2
    rows are also slower than that for 4 (16.7 and 19.4 : 12.9 ms for the linear layers of SmolLM2-135M); with AVX2
    a step costs 3% more for 2 rows than for 1 and 8% more for 4.
    """
    return 4 if torch.backends.cpu.get_cpu_capability().startswith("AVX512") else 2


@dataclass(slots=True)
class PackedWeight:
    """A weight [outputs, inputs] in oneDNN's blocked layout; `tensor` is replaced when weights are reloaded."""

    tensor: Tensor
    outputs: int
    inputs: int

    @classmethod
    def pack(cls, weight: Tensor) -> PackedWeight:
        """Copy a dense float32 weight into the packed layout. Raises ValueError for other dtypes or devices."""
        if weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.dim() != 2:
            raise ValueError(f"only float32 matrices on the CPU are packed, not {weight.dtype} on {weight.device}")
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), BATCH_HINT)
        return cls(packed, weight.shape[0], weight.shape[1])

    def unpack(self) -> Tensor:
        """A dense float32 copy, equal to what was packed."""
        return self.tensor.to_dense()

    def region(self) -> tuple[int, int]:
        """Address and bytes of the packed memory."""
        return int(torch.ops.mkldnn.data_ptr(self.tensor)), int(torch.ops.mkldnn._nbytes(self.tensor))

    def rows_view(self) -> BlockedRows | None:
        """A view of the packed memory that can be read by rows, or None when the layout is not understood."""
        return BlockedRows.find(self)


@dataclass(frozen=True, slots=True)
class BlockedRows:
    """Rows of a packed weight, read in place: oneDNN stores blocks of `width` outputs as [inputs, width].

    The layout is private to oneDNN, therefore `find` compares every row with the dense weight first. `owner` keeps
    the memory under `blocks` alive.
    """

    blocks: Tensor
    owner: Tensor

    @classmethod
    def find(cls, packed: PackedWeight, widths: tuple[int, ...] = (64, 48, 32, 24, 16, 8)) -> BlockedRows | None:
        address, size = packed.region()
        memory = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.float32)
        dense = packed.unpack()
        for width in widths:
            count = -(-packed.outputs // width)
            if count * width * packed.inputs > memory.numel():
                continue
            blocks = memory[: count * width * packed.inputs].view(count, packed.inputs, width)
            candidate = cls(blocks, packed.tensor)
            if candidate._equals(dense):
                return candidate
        return None

    def _equals(self, dense: Tensor, chunk: int = 4096) -> bool:
        starts = range(0, dense.shape[0], chunk)
        ids = torch.arange(dense.shape[0])
        return all(torch.equal(self.read(ids[s : s + chunk]), dense[s : s + chunk]) for s in starts)

    def read(self, ids: Tensor) -> Tensor:
        """The rows `ids` (int64, any shape) as a dense tensor [*ids.shape, inputs]."""
        width = self.blocks.shape[2]
        return self.blocks[ids // width, :, ids % width]


def linear(x: Tensor, weight: PackedWeight, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias for float32 x [..., inputs]. Does not mutate; few rows are padded, see `min_rows`."""
    flat = x.reshape(-1, weight.inputs)
    rows = flat.shape[0]
    padded = pad_rows(flat)
    out = torch.ops.mkldnn._linear_pointwise.default(padded, weight.tensor, bias, "none", [], "")
    return out[:rows].view(*x.shape[:-1], weight.outputs)


def pad_rows(x: Tensor) -> Tensor:
    """x [rows, n] itself, or with zero rows appended up to `min_rows()`."""
    rows = x.shape[0]
    missing = min_rows() - rows
    if missing <= 0 or rows == 0:
        return x
    padded = x.new_zeros(rows + missing, x.shape[1])
    padded[:rows] = x
    return padded


def linear_kernel() -> Any:
    """The raw operator (x, weight, bias, post-op, scalars, algorithm) without padding or reshaping."""
    return torch.ops.mkldnn._linear_pointwise.default


def linear_add_kernel() -> Any:
    """The raw operator (x, other, weight, bias, 'add'): x @ weight.T + bias + other in one pass."""
    return torch.ops.mkldnn._linear_pointwise.binary
