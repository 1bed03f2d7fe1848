"""The gate of a Llama feed-forward block."""

from __future__ import annotations

import torch
from torch import Tensor


def silu_and_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) * up for [..., 2 n], whose halves are gate and up. Returns a new tensor [..., n]."""
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate).mul_(up)
