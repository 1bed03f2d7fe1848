"""Any backend, by weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random as Source

from service.gateway.routing.base import Load, Routed


@dataclass
class Random:
    """Draws without replacement, each backend as likely as its weight. Blind to load; replicas need not agree."""

    source: Source = field(default_factory=Source)

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        del request
        # Exponential races: the first to arrive is i with probability weight[i] / sum, and so on among the rest.
        arrivals = [self.source.expovariate(backend.weight) for backend in backends]
        return sorted(range(len(backends)), key=arrivals.__getitem__)
