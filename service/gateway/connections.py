"""The connections to one backend: idle ones are used again, the youngest first."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from service.gateway.wire import Connection, UnreachableError

# uvicorn, which serves SGLang, closes idle connections after 5 s; reuse must stop before that.
_KEEPALIVE_S = 4.0


class Connections:
    """Opens, keeps and closes connections to the base URL `url`; belongs to one event loop."""

    def __init__(self, url: str, *, connect_timeout_s: float, headers: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.encode()
        self._headers = b"Host: %s\r\n%s" % (
            parts.netloc.encode("ascii" if parts.netloc.isascii() else "idna"),
            headers,
        )
        self._connect_timeout_s = connect_timeout_s
        self._idle: dict[Connection, float] = {}
        self._open: set[Connection] = set()

    def head(self, method: bytes, path: bytes, headers: bytes, length: int) -> bytes:
        """The head of a request; `headers` are whole lines."""
        return b"%s %s%s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n" % (
            method,
            self._path,
            path,
            self._headers,
            headers,
            length,
        )

    async def take(self) -> Connection:
        """An idle connection, or a new one. Raises UnreachableError."""
        while self._idle:
            connection, since = self._idle.popitem()
            if self._loop.time() - since >= _KEEPALIVE_S:
                connection.cut()
                self._cut_idle()
            elif connection.reusable:
                return connection
            else:
                connection.cut()
        return await self.fresh()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request, or close it where it cannot be used again."""
        if connection.reusable:
            self._idle[connection] = self._loop.time()
        else:
            connection.cut()

    def close(self) -> None:
        """Cut every connection."""
        self._cut_idle()
        for connection in tuple(self._open):
            connection.cut()

    async def fresh(self) -> Connection:
        """A new connection. Raises UnreachableError."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._url, self._gone), self._host, self._port, ssl=self._ssl
                )
        except TimeoutError:
            raise UnreachableError(f"{self._url}: no connection in {self._connect_timeout_s:g} s") from None
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"{self._url}: {error or type(error).__name__}") from error
        self._open.add(connection)
        return connection

    def _cut_idle(self) -> None:
        while self._idle:
            self._idle.popitem()[0].cut()

    def _gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
