"""The backend that has read most of the prompt, unless it is too busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.gateway.routing.base import Load, Routed, from_turn, relative_load
from service.gateway.routing.prefix_index import PrefixIndex


@dataclass
class CacheAware:
    """Longest known beginning first, if it is `share` of the prompt at least; the rest by load.

    A backend with more open requests than `factor` times the idlest one's and `slack` more comes behind the others
    whatever it has read: a popular beginning then spreads over as many backends as its traffic needs, and no hot spot
    forms. The index holds what was sent, not what engines still cache: one that restarted looks warm until its blocks
    age.

    Parameters: `share` of the prompt that must be known (default 0.3); `factor` (1.5) and `slack` (4 requests) of the
    load guard.
    """

    share: float = 0.3
    factor: float = 1.5
    slack: float = 4.0
    index: PrefixIndex = field(default_factory=PrefixIndex)
    _turn: int = 0

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        self._turn += 1
        text = request.beginning()
        known = self.index.known(text)
        loads = [relative_load(backend) for backend in backends]
        limit = self.factor * min(loads) + self.slack

        def worth(i: int) -> tuple[bool, int, float]:
            read = known.get(backends[i].url, 0)
            return loads[i] > limit, -read if read >= self.share * len(text) else 0, loads[i]

        order = sorted(from_turn(self._turn, len(backends)), key=worth)
        self.index.note(text, backends[order[0]].url)
        return order
