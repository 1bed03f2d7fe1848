"""`hadamard`: every channel spread over all others."""

from __future__ import annotations

import torch

from service.kvcache.rotation import Rotation


class Hadamard(Rotation):
    """Sylvester's Hadamard matrix over the square root of its size.

    An outlying channel is shared out evenly, so that a group's range shrinks (QuaRot, arXiv 2404.00456). The same for
    all heads and layers, knows nothing of the model, and needs a dimension that is a power of two.
    """

    def matrix(self, dim: int) -> torch.Tensor:
        """Symmetric, so that it is its own inverse."""
        if dim < 1 or dim & (dim - 1):
            raise ValueError(f"hadamard needs a head dimension that is a power of two, not {dim}: set rotation none")
        rows = torch.ones(1, 1)
        while len(rows) < dim:
            rows = torch.cat((torch.cat((rows, rows), 1), torch.cat((rows, -rows), 1)))
        return rows / dim**0.5
