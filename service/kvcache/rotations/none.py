"""`none`: rows as they are."""

from __future__ import annotations

from service.kvcache.rotation import Rotation


class NoRotation(Rotation):
    """The baseline: one outlying channel widens the range of its whole group."""

    def matrix(self, dim: int) -> None:
        """None."""
        del dim
