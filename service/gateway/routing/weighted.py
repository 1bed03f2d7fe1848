"""Shares of the requests as configured: for canaries and unequal machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.gateway.routing.base import Load, Routed


@dataclass
class Weighted:
    """Smooth weighted round robin: exact shares over any stretch of requests, and no bursts to the heavy ones.

    Each request credits every backend its weight; the richest serves and pays the sum. Source: nginx's upstream
    balancing. Credits are kept by address, so that a backend that was away does not come back with a debt or a claim.
    """

    _credit: dict[str, float] = field(default_factory=dict)

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        del request
        credit = {backend.url: self._credit.get(backend.url, 0.0) + backend.weight for backend in backends}
        order = sorted(range(len(backends)), key=lambda index: -credit[backends[index].url])
        credit[backends[order[0]].url] -= sum(backend.weight for backend in backends)
        self._credit = credit
        return order
