"""The answer to the client as ASGI messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson

from service.errors import RequestError
from service.gateway.ledger import Ledger
from service.gateway.sse import data_event

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies such as nginx would collect the events otherwise.
    (b"x-accel-buffering", b"no"),
]


class Reply:
    """Sends one answer and remembers how far it came. `send` may wait for a slow client.

    `limits` are headers about the client's rates.
    """

    def __init__(self, send: Send, ledger: Ledger) -> None:
        self._send = send
        self._ledger = ledger
        self.started = False
        self.finished = False
        self.limits: Mapping[str, str] = {}

    async def start_stream(self, pool: str, lossy: str | None) -> None:
        """Status and headers of an event stream; `lossy` names what changes the text, None for nothing."""
        await self._start(200, [*_STREAM_HEADERS, *self._own_headers(pool, lossy)])

    async def chunk(self, body: bytes) -> None:
        """Bytes of the stream."""
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        """The last bytes."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def whole(self, body: bytes, pool: str, lossy: str | None) -> None:
        """A whole JSON answer; `lossy` as in `start_stream`."""
        length = (b"content-length", str(len(body)).encode())
        await self._start(200, [(b"content-type", b"application/json"), length, *self._own_headers(pool, lossy)])
        await self.end(body)

    async def end_with_error(self, error: RequestError) -> None:
        """Close a started stream with an error event, so that it never just stops."""
        await self.end(data_event(orjson.dumps(error.body())))

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self._ledger.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _own_headers(self, pool: str, lossy: str | None) -> list[tuple[bytes, bytes]]:
        self._ledger.pause()
        named = [] if lossy is None else [(b"x-specserve-lossy", lossy.encode())]
        named += [(name.encode(), value.encode()) for name, value in self.limits.items()]
        return [
            *named,
            (b"x-specserve-pool", pool.encode()),
            (b"x-specserve-overhead-ms", b"%.3f" % (self._ledger.overhead * 1e3)),
        ]
