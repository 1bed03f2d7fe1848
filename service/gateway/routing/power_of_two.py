"""The less loaded of two random backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random as Source

from service.gateway.routing.base import Load, Routed, relative_load


@dataclass
class PowerOfTwo:
    """Of two backends drawn at random the less loaded one first, then the other one, then the rest by load.

    Nearly as even as `least_load`, and replicas of the gateway that each see only their own requests do not all choose
    the same backend. Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (2001).
    """

    source: Source = field(default_factory=Source)

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        del request
        count = len(backends)
        drawn = self.source.sample(range(count), min(2, count))
        rest = [index for index in range(count) if index not in drawn]
        load = [relative_load(backend) for backend in backends]
        return sorted(drawn, key=load.__getitem__) + sorted(rest, key=load.__getitem__)
