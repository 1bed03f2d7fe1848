"""The backend with the fewest open requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.gateway.routing.base import Load, Routed, from_turn, relative_load


@dataclass
class LeastLoad:
    """Fewest open requests for its weight first, ties in turn.

    It sees this gateway's requests only: where several replicas share backends, `power_of_two` herds less.
    """

    _turn: int = 0

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        del request
        self._turn += 1
        turn = from_turn(self._turn - 1, len(backends))
        return sorted(turn, key=lambda index: relative_load(backends[index]))
