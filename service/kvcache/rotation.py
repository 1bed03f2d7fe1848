"""What a rotation of the head dimension is, and the registry of rotations. Imports no torch at run time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from service.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["keys", "values"]


class Rotation(ABC):
    """An orthogonal map of each head's dimensions, applied to keys and values before they are quantized.

    Queries are rotated alike, so that scores stay what they were, and what was read is rotated back. A `calibrated`
    rotation is made with the path of a calibration, others with nothing.
    """

    calibrated: ClassVar[bool] = False

    @abstractmethod
    def matrix(self, dim: int) -> Tensor | None:
        """Float32 [dim, dim] with orthonormal rows, None for no rotation. Raises ValueError for a dim that has none."""

    def of_layer(self, layer: int, kind: Kind, dim: int) -> Tensor | None:
        """The `matrix` of one layer's keys or values; all layers have the same unless a rotation knows better."""
        del layer, kind
        return self.matrix(dim)

    def centre(self, layer: int, kind: Kind) -> Tensor | None:
        """Float32 [kv_heads, dim] that is taken off keys or values before they are turned; None for nothing.

        Scores of all keys change alike, which a softmax does not see; that of values is added to what was read.
        """
        del layer, kind
        return None


ROTATIONS = {
    "none": "service.kvcache.rotations.none:NoRotation",
    "hadamard": "service.kvcache.rotations.hadamard:Hadamard",
    "oscar": "service.kvcache.rotations.oscar:Oscar",
}
"""Built-in rotations: name and class, imported when the rotation is used."""


def rotation_registry() -> Registry[type[Rotation]]:
    """The classes of rotations by name, third parties' included; building it imports no torch."""
    registry: Registry[type[Rotation]] = Registry("kv_rotations")
    for name, path in ROTATIONS.items():
        registry.register_path(name, path)
    return registry


def make_rotation(name: str, calibration: str | None) -> Rotation:
    """The rotation of that name. Raises what the registry raises for an unknown one, and what the rotation raises."""
    kind = rotation_registry().load(name)
    return kind(calibration) if kind.calibrated else kind()  # type: ignore[call-arg]
