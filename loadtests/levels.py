"""Load over time as multiples of a base load; users or arrivals a second follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Name = Literal["constant", "ramp", "step", "spike", "soak", "sweep"]
Level = Callable[[float], float]
"""Share of the test that has passed, 0 to 1, to a multiple of the base load."""

SPIKE = 10.0
SPIKE_AT = (0.4, 0.5)
"""Where in the test the spike begins and ends."""
STEPS = (0.25, 0.5, 0.75, 1.0)
SWEEP = (1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class Steps:
    """Equal parts of the test at one level each."""

    levels: tuple[float, ...]

    def __call__(self, share: float) -> float:
        """The level at that share of the test."""
        return self.levels[min(int(share * len(self.levels)), len(self.levels) - 1)]


def constant(share: float) -> float:
    """The base load, always; `soak` is the same for long."""
    del share
    return 1.0


def ramp(share: float) -> float:
    """From nothing to the base load at four fifths of the test, then flat."""
    return min(share / 0.8, 1.0)


def spike(share: float) -> float:
    """The base load, and `SPIKE` times that for a tenth of the test."""
    return SPIKE if SPIKE_AT[0] <= share < SPIKE_AT[1] else 1.0


LEVELS: Mapping[Name, Level] = {
    "constant": constant,
    "ramp": ramp,
    "step": Steps(STEPS),
    "spike": spike,
    "soak": constant,
    "sweep": Steps(SWEEP),
}


def peak(level: Level) -> float:
    """The highest level, to a thousandth of the test."""
    return max(level(part / 1000) for part in range(1000))
