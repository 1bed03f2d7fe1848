"""HTTP to the backends: requests that generate, aborts and health checks over pooled connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import orjson

from service.gateway.backends import Backend
from service.gateway.connections import Connections
from service.gateway.wire import BrokenError, Connection, UnreachableError
from service.settings import GatewaySettings

_ABORT_TIMEOUT_S = 2.0
JSON_TYPE = b"Content-Type: application/json\r\n"
_NO_LINE = re.compile(rb"[\r\n\0]")


class Upstream:
    """The client side of the gateway. `start` and `close` belong to the event loop that serves requests."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._connect_timeout_s = settings.connect_timeout_s
        self._health_path = settings.health_path.encode()
        key = settings.backend_api_key
        self._headers = b"Accept-Encoding: identity\r\n"
        if key is not None:
            self._headers += header_line(b"Authorization", b"Bearer " + key.get_secret_value().encode())
        self._pools: dict[str, Connections] | None = None

    async def start(self) -> None:
        """Allow connections from now on."""
        self._pools = {}

    async def close(self) -> None:
        """Cut every connection."""
        pools, self._pools = self._pools or {}, None
        for connections in pools.values():
            connections.close()

    async def post(self, backend: Backend, path: bytes, body: bytes, headers: bytes) -> tuple[Connections, Connection]:
        """Send a request and give the connection that its answer will come on; `headers` are whole lines.

        Waits only for a connection. Raises UnreachableError. The caller must cut or give back the connection.
        """
        connections = self._connections(backend)
        connection = await connections.take()
        connection.send(connections.head(b"POST", path, headers, len(body)), body)
        return connections, connection

    async def abort(self, backend: Backend, rids: Sequence[str]) -> bool:
        """Ask the backend to stop these requests; false when it could not be told. Never raises for that."""
        results = await asyncio.gather(*(self._abort(backend, rid) for rid in rids))
        return all(results)

    async def _abort(self, backend: Backend, rid: str) -> bool:
        try:
            async with asyncio.timeout(_ABORT_TIMEOUT_S):
                return await self._status(backend, b"POST", b"/abort_request", orjson.dumps({"rid": rid})) < 400
        except (UnreachableError, BrokenError, TimeoutError):
            return False

    async def health(self, backend: Backend, timeout_s: float) -> int:
        """Status of the backend's health check. Raises TimeoutError, UnreachableError or BrokenError."""
        async with asyncio.timeout(timeout_s):
            return await self._status(backend, b"GET", self._health_path, b"")

    async def fetch(self, backend: Backend, path: bytes, timeout_s: float) -> bytes:
        """The body of a GET. Raises TimeoutError, UnreachableError, BrokenError, and ValueError for an error status."""
        async with asyncio.timeout(timeout_s):
            status, body = await self._small(backend, b"GET", path, b"")
        if status != 200:
            raise ValueError(f"{path.decode()} answered {status}")
        return body

    async def _status(self, backend: Backend, method: bytes, path: bytes, body: bytes) -> int:
        return (await self._small(backend, method, path, body))[0]

    async def _small(self, backend: Backend, method: bytes, path: bytes, body: bytes) -> tuple[int, bytes]:
        """Status and body of one small request that does no harm when it comes twice."""
        connections = self._connections(backend)
        connection = await connections.take()
        head = connections.head(method, path, JSON_TYPE if body else b"", len(body))
        try:
            return await _ask(connections, connection, head, body)
        except BrokenError:
            # An idle connection that the backend closed just now says nothing about the backend.
            if not connection.untouched:
                raise
        return await _ask(connections, await connections.fresh(), head, body)

    def _connections(self, backend: Backend) -> Connections:
        if self._pools is None:
            raise RuntimeError("the upstream is not open: run the application's lifespan")
        found = self._pools.get(backend.url)
        if found is None:
            found = self._pools[backend.url] = Connections(
                backend.url, connect_timeout_s=self._connect_timeout_s, headers=self._headers
            )
        return found


async def _ask(connections: Connections, connection: Connection, head: bytes, body: bytes) -> tuple[int, bytes]:
    parts = []
    try:
        connection.send(head, body)
        status = await connection.head()
        while part := await connection.read():
            parts.append(part)
    except BaseException:
        connection.cut()
        raise
    connections.give_back(connection)
    return status, b"".join(parts)


def header_line(name: bytes, value: bytes) -> bytes:
    """One header as it goes over the wire. Raises ValueError for a value that would be more than one line."""
    if _NO_LINE.search(value):
        raise ValueError(f"the header {name.decode('latin-1')} holds a line end")
    return b"%s: %s\r\n" % (name, value)
