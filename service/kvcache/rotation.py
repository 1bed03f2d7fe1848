"""What a rotation of the head dimension is, and the registry of rotations. Imports no torch at run time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from service.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


class Rotation(ABC):
    """An orthogonal map of each head's dimensions, applied to keys and values before they are quantized.

    Queries are rotated alike, so that scores stay what they were, and what was read is rotated back.
    """

    @abstractmethod
    def matrix(self, dim: int) -> Tensor | None:
        """Float32 [dim, dim] with orthonormal rows, None for no rotation. Raises ValueError for a dim that has none."""


ROTATIONS = {
    "none": "service.kvcache.rotations.none:NoRotation",
    "hadamard": "service.kvcache.rotations.hadamard:Hadamard",
}
"""Built-in rotations: name and class, imported when the rotation is used."""


def rotation_registry() -> Registry[type[Rotation]]:
    """The classes of rotations by name, third parties' included; building it imports no torch."""
    registry: Registry[type[Rotation]] = Registry("kv_rotations")
    for name, path in ROTATIONS.items():
        registry.register_path(name, path)
    return registry
