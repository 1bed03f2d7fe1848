"""Backends in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.gateway.routing.base import Load


@dataclass
class RoundRobin:
    """Each request starts one backend further than the last one. Blind to load: use it for equal backends."""

    _turn: int = 0

    def order(self, loads: Sequence[Load]) -> list[int]:
        start = self._turn % len(loads)
        self._turn += 1
        return [*range(start, len(loads)), *range(start)]
