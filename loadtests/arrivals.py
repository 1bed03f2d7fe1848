"""When requests are due in an open loop: whether or not earlier ones were answered."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from loadtests.levels import Level, peak


def poisson(rate: float, level: Level, seconds: float, random: Random) -> Iterator[float]:
    """Due times within `seconds` of a Poisson process with `rate * level(share)` arrivals a second, by thinning.

    Lewis and Shedler, "Simulation of nonhomogeneous Poisson processes by thinning", 1979.
    """
    highest = rate * peak(level)
    at = random.expovariate(highest)
    while at < seconds:
        if random.random() * highest < rate * level(at / seconds):
            yield at
        at += random.expovariate(highest)
