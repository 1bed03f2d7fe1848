"""Backends in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.gateway.routing.base import Load, Routed, from_turn


@dataclass
class RoundRobin:
    """Each request starts one backend further than the last one. Blind to load and weights: for equal backends."""

    _turn: int = 0

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        del request
        self._turn += 1
        return from_turn(self._turn - 1, len(backends))
