"""`oscar`: each layer's own rotation, from what its attention looks at."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from service.kvcache.rotation import Kind, Rotation
from service.kvcache.rotations.hadamard import Hadamard


class Oscar(Rotation):
    """The directions that queries look along, each spread evenly over all channels.

    Keys are turned by the eigenvectors of the queries' second moments, values by those of values weighted by how much
    attention their keys draw; a Hadamard matrix behind them gives every channel its share of each direction (OSCAR).
    Our addition: each head's mean key and mean value are taken off first, so that codes say what differs between
    tokens. `specserve calibrate kv` writes the file of `calibration`.
    """

    calibrated: ClassVar[bool] = True

    def __init__(self, calibration: str | Path | None = None) -> None:
        """Reads the file. Raises ValueError without one, OSError for one that cannot be read."""
        if calibration is None:
            raise ValueError("oscar needs kv.calibration: run `specserve calibrate kv` and name its file there")
        self._turns: dict[str, torch.Tensor] = torch.load(calibration, weights_only=True)

    def matrix(self, dim: int) -> torch.Tensor:
        """Raises ValueError: there is none for all layers."""
        raise ValueError(f"oscar has no rotation of {dim} channels for all layers alike")

    def of_layer(self, layer: int, kind: Kind, dim: int) -> torch.Tensor:
        """Float32 [dim, dim]. Raises ValueError for a layer or a dimension that the calibration has not."""
        turns = self._turns[kind]
        if layer >= len(turns) or turns.shape[-1] != dim:
            raise ValueError(
                f"the calibration has {len(turns)} layers of {turns.shape[-1]} channels, which is another model: "
                "run `specserve calibrate kv` again"
            )
        return turns[layer]

    def centre(self, layer: int, kind: Kind) -> torch.Tensor:
        """Float32 [kv_heads, dim], the mean of the calibration's text."""
        return self._turns[f"{kind}_mean"][layer]


def turn_of(moments: torch.Tensor) -> torch.Tensor:
    """The rotation from second moments, float64 [dim, dim] -> float32 [dim, dim]. Dim is a power of two."""
    eigenvectors = torch.linalg.eigh(moments).eigenvectors.float()
    return eigenvectors @ Hadamard().matrix(len(moments))
