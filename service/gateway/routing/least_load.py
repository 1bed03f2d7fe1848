"""The backend with the fewest open requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.gateway.routing.base import Load


@dataclass
class LeastLoad:
    """Fewest open requests first, ties in turn. It sees this gateway's requests only, not other replicas'."""

    _turn: int = 0

    def order(self, loads: Sequence[Load]) -> list[int]:
        start = self._turn % len(loads)
        self._turn += 1
        turn = [*range(start, len(loads)), *range(start)]
        return sorted(turn, key=lambda index: loads[index].in_flight)
