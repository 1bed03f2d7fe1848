"""When to switch, and when to try again what did not pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from service.speculation.allocation import Offer
from service.speculation.cost import Floats

_LONGEST_WAIT = 64


@dataclass
class Gate:
    """A switch with hysteresis. `toggles` counts how often it changed; `since` the steps since then."""

    on: bool
    toggles: int = 0
    since: int = 0
    _measure_at: int = 4

    def update(self, turn_on: bool, turn_off: bool, dwell: int) -> None:
        """One step with these wishes. Mutates."""
        self.since += 1
        if self.since > dwell and (turn_off if self.on else turn_on):
            self.on, self.toggles, self.since = not self.on, self.toggles + 1, 0

    def time_to_measure(self) -> bool:
        """Whether this step should be plain to learn what plain steps cost; at growing distances. Mutates."""
        if self.since < self._measure_at:
            return False
        self._measure_at = self.since * 2
        return True


@dataclass
class Probing:
    """Tries requests that draft nothing with small drafts, within a share of the time.

    Each step adds `share` of a plain step to a purse that holds twenty steps' worth, and a trial is paid from it. Each
    request waits longer after each trial, up to 64 steps; an accepted token ends the waiting.
    """

    share: float
    size: int
    _purse: float = field(init=False)
    _waits: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._purse = 10 * self.share

    def trials(
        self,
        keys: Sequence[str],
        nodes: Sequence[int],
        offers: Sequence[Offer],
        cost: Callable[[Floats, Floats], float],
    ) -> list[tuple[int, int]]:
        """(index, draft tokens) of requests to try now; `cost` of more rows and drafting, in plain steps. Mutates."""
        self._purse = min(self._purse + self.share, 20 * self.share)
        idle = [i for i, count in enumerate(nodes) if count == 0 and len(offers[i].gains)]
        ready = []
        for i in idle:
            left, wait = self._waits.get(keys[i], (0, 1))
            self._waits[keys[i]] = (max(0, left - 1), wait)
            if left <= 1:
                ready.append((wait, i))
        if not ready:
            return []
        _, i = min(ready)
        size = min(self.size, len(offers[i].gains))
        price = cost(np.array([float(size)]), np.array([offers[i].start]))
        if price > self._purse:
            return []
        self._purse -= price
        wait = self._waits[keys[i]][1]
        self._waits[keys[i]] = (wait, min(2 * wait, _LONGEST_WAIT))
        return [(i, size)]

    def praise(self, key: str) -> None:
        """A draft token of the request was accepted: it may be tried again soon. Mutates."""
        if key in self._waits:
            self._waits[key] = (1, 1)

    def forget(self, key: str) -> None:
        """The request ended. Mutates."""
        self._waits.pop(key, None)
