"""One attempt at one backend, from the choice of the backend until its connection is free again."""

from __future__ import annotations

import os

from service.gateway.backends import Backend
from service.gateway.connections import Connections
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.gateway.upstream import Upstream
from service.gateway.wire import BrokenError, Connection

# Far above what any model writes; a whole answer is held in memory.
_MOST_BODY_BYTES = 2**28


class Exchange:
    """An upstream request with the ids that abort it.

    A client that leaves ends no exchange: what the backend sends is kept, within bounds, so that its last figures
    can be read after the abort. `close` must be called; until then the backend counts the request as open.
    """

    __slots__ = (
        "_connection",
        "_open",
        "_parts",
        "_pool_of",
        "_prepared",
        "_size",
        "_upstream",
        "backend",
        "pool",
        "rid",
    )

    def __init__(self, prepared: Prepared, pool: ServedPool, backend: Backend, upstream: Upstream) -> None:
        self.backend = backend
        self.pool = pool
        self.rid = os.urandom(16).hex()
        self._prepared = prepared
        self._upstream = upstream
        self._connection: Connection | None = None
        self._pool_of: Connections | None = None
        self._open = True
        self._parts: list[bytes] = []
        self._size = 0
        backend.in_flight += 1
        pool.metrics.in_flight.inc()

    @property
    def rids(self) -> list[str]:
        """Every id that SGLang may know this request by: it numbers the prompts of a batch, and one with n > 1.

        The ids of further choices derive from these in our plugin, whose abort covers them; elsewhere they are
        random and only cutting the connection ends them.
        """
        prepared = self._prepared
        if not prepared.endpoint.abortable:
            return []
        if prepared.choices == 1 and not prepared.batch:
            return [self.rid]
        return [self.rid, *(f"{self.rid}_{number}" for number in range(prepared.prompts))]

    async def send(self, headers: bytes) -> int:
        """Send the request and wait for the answer's status; when cancelled, the request goes on.

        Raises UnreachableError, BrokenError, and BadRequestError for a body that cannot be encoded.
        """
        body = self._prepared.encode(self.rid)
        self._pool_of, self._connection = await self._upstream.post(self.backend, self._prepared.path, body, headers)
        return await self._connection.head()

    async def read(self) -> bytes:
        """What came of the answer's body since the last call; empty at its end. Raises BrokenError."""
        if self._connection is None:
            raise BrokenError(f"{self.backend.url}: the request was not sent")
        return await self._connection.read()

    async def read_all(self) -> bytes:
        """The whole body; when cancelled, a later call goes on where this one stopped.

        Raises BrokenError, also for a body that has no end in sight.
        """
        while part := await self.read():
            self._parts.append(part)
            self._size += len(part)
            if self._size > _MOST_BODY_BYTES:
                raise BrokenError(f"{self.backend.url}: the answer is larger than {_MOST_BODY_BYTES} bytes")
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    @property
    def sent(self) -> bool:
        """Whether the backend may know of the request."""
        return self._connection is not None

    @property
    def ended(self) -> bool:
        """Whether the whole answer came."""
        return self._connection is not None and self._connection.complete

    @property
    def closed(self) -> bool:
        """Whether nothing more can come of it."""
        return not self._open

    async def abort(self) -> bool:
        """Tell the backend to stop. Repeat it: an abort that comes before the request is forgotten there."""
        return await self._upstream.abort(self.backend, self.rids)

    def close(self, *, reuse: bool = False) -> None:
        """Free the connection; without `reuse` it is cut, which also ends the request at the backend."""
        if not self._open:
            return
        self._open = False
        self.backend.in_flight -= 1
        self.pool.metrics.in_flight.dec()
        if self._connection is None or self._pool_of is None:
            return
        if reuse:
            self._pool_of.give_back(self._connection)
        else:
            self._connection.cut()
