"""One attempt at one backend, from the choice of the backend until its connection is free again."""

from __future__ import annotations

import asyncio
import uuid

import aiohttp

from service.gateway.backends import Backend
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.gateway.upstream import Upstream


class Exchange:
    """An upstream request with the ids that abort it.

    The request runs in a task of its own, so that a client that leaves does not end it before its abort was
    sent and its last figures were read. `close` must be called; until then the backend counts it as open.
    """

    def __init__(self, prepared: Prepared, pool: ServedPool, backend: Backend, upstream: Upstream) -> None:
        self.backend = backend
        self.pool = pool
        self.rid = uuid.uuid4().hex
        self.response: aiohttp.ClientResponse | None = None
        self._prepared = prepared
        self._upstream = upstream
        self._task: asyncio.Task[aiohttp.ClientResponse] | None = None
        self._open = True
        self._parts: list[bytes] = []
        backend.in_flight += 1
        pool.metrics.in_flight.inc()

    @property
    def rids(self) -> list[str]:
        """Every id that SGLang may know this request by: it numbers the prompts of a batch, and one with n > 1.

        The ids of further choices derive from these in our plugin, whose abort covers them; elsewhere they are
        random and only cutting the connection ends them.
        """
        prepared = self._prepared
        if prepared.choices == 1 and not prepared.batch:
            return [self.rid]
        return [self.rid, *(f"{self.rid}_{number}" for number in range(prepared.prompts))]

    async def send(self, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """Send the request and wait for the answer's headers; when cancelled, the request goes on.

        Raises what Upstream.post raises, and BadRequestError for a body that cannot be encoded.
        """
        body = self._prepared.encode(self.rid)
        self._task = asyncio.create_task(self._upstream.post(self.backend, self._prepared.path, body, headers))
        return await self.answer()

    async def answer(self) -> aiohttp.ClientResponse:
        """The answer, now or when it comes."""
        assert self._task is not None
        self.response = await asyncio.shield(self._task)
        return self.response

    async def read_all(self) -> bytes:
        """The whole body; when cancelled, a later call goes on where this one stopped."""
        response = await self.answer()
        while part := await response.content.readany():
            self._parts.append(part)
        return b"".join(self._parts)

    @property
    def sent(self) -> bool:
        """Whether the backend may know of the request."""
        return self._task is not None

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
        if self._task is not None and not self._task.done():
            self._task.cancel()
        elif self._task is not None and not self._task.cancelled() and self._task.exception() is None:
            response = self._task.result()
            if reuse:
                response.release()
            else:
                response.close()
