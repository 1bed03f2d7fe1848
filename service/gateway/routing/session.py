"""Requests of one session on one backend, whose prefix cache holds their past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from service.gateway.routing.base import Load, Routed
from service.gateway.routing.least_load import LeastLoad


@dataclass
class Session:
    """Consistent hashing of the session's name; requests without one go where least is open.

    Weighted rendezvous hashing (Thaler and Ravishankar, 1998): each backend draws a number from the session's name and
    its own address, and the highest is tried first. When a backend leaves only its own sessions move, all replicas of
    the gateway agree without talking, and a session's second choice is as stable as its first.
    """

    _others: LeastLoad = field(default_factory=LeastLoad)

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]:
        if request.session is None:
            return self._others.order(backends, request)
        key = request.session.encode()
        scores = [_score(key, backend) for backend in backends]
        return sorted(range(len(backends)), key=lambda index: -scores[index])


def _score(key: bytes, backend: Load) -> float:
    digest = blake2b(key, key=blake2b(backend.url.encode(), digest_size=32).digest(), digest_size=8).digest()
    # Inside (0, 1): neither logarithm nor division can fail.
    draw = (int.from_bytes(digest, "big") + 0.5) / 2.0**64
    return -backend.weight / math.log(min(draw, 1 - 2**-53))
