"""The interface of a routing policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Load(Protocol):
    """What a policy may see of a backend."""

    @property
    def in_flight(self) -> int:
        """Requests that were given to the backend and have not finished."""
        ...


class RoutingPolicy(Protocol):
    """Orders the usable backends of one pool for one request.

    `order` gets indices' loads as a snapshot and gives a permutation of the indices, best first; the gateway
    tries them in that order. It may change the policy's own state, does no I/O, does not block and is called
    from one event loop only. It is never called with an empty sequence.
    """

    def order(self, loads: Sequence[Load]) -> list[int]: ...
