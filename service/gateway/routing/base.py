"""The interface of a routing policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Load(Protocol):
    """What a policy may see of a backend."""

    @property
    def url(self) -> str:
        """Its address, which stays the same while others come and go."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests that were given to the backend and have not finished, counted from the moment of dispatch."""
        ...

    @property
    def weight(self) -> float:
        """Its share of the work relative to the others, above 0."""
        ...


class Routed(Protocol):
    """What a policy may see of a request."""

    @property
    def session(self) -> str | None:
        """Names requests that belong together; None when the client named nothing."""
        ...

    def beginning(self) -> bytes:
        """The first 16 KiB of what the engine will read, as JSON: equal for equal beginnings of prompts."""
        ...


class RoutingPolicy(Protocol):
    """Orders the usable backends of one pool for one request.

    `order` gets the backends as a snapshot and gives a permutation of their indices, best first; the gateway
    tries them in that order. It may change the policy's own state, does no I/O, does not block and is called
    from one event loop only. It is never called with an empty sequence.
    """

    def order(self, backends: Sequence[Load], request: Routed) -> list[int]: ...


def relative_load(backend: Load) -> float:
    """Open requests for its share of the work."""
    return backend.in_flight / backend.weight


def from_turn(turn: int, count: int) -> list[int]:
    """All indices, beginning with the one whose turn it is."""
    start = turn % count
    return [*range(start, count), *range(start)]
