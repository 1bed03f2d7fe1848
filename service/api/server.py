"""uvicorn as this service runs it: uvloop, httptools, and heads that leave with their bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1."


class Joined:
    """A transport that keeps an answer's head, and what follows in the same turn of the event loop, for the next.

    uvloop writes at once and uvicorn writes heads alone: each answer would cost two system calls, and wake its
    client twice. Later chunks of a stream leave at once. Everything else is the transport's own.
    """

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data, behind a head that waits or at once."""
        if self._parts:
            self._parts.append(data)
        elif data.startswith(_HEAD):
            self._parts.append(data)
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what waits and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol over a `Joined` transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joined(transport))  # type: ignore[arg-type]


class Server(uvicorn.Server):
    """Leaves signals to its owner: uvicorn would raise them again at the end and lose the exit code 0."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def make_server(app: ASGIApp, host: str, port: int, *, drain_s: float) -> Server:
    """A server that is not started; open requests get `drain_s` seconds when it ends."""
    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            loop="uvloop",
            http=Protocol,
            ws="none",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(round(drain_s), 1),
        )
    )
