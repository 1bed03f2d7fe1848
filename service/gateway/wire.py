"""One HTTP/1.1 connection to a backend: a request at a time, its answer pulled in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

# The most that waits here for a slow client: with more, the socket is read no further.
_PAUSE_BYTES = 2**18
# Status lines, headers, interim answers, chunk extensions and trailers: what comes without a byte of the body.
_MOST_HEAD_BYTES = 2**16


class UnreachableError(Exception):
    """No connection could be opened: the backend did not see the request."""


class BrokenError(Exception):
    """The connection broke before the answer was whole: the backend may have begun the work."""


class Connection(asyncio.Protocol):
    """`send` a request, await its `head`, `read` until empty; then, where `reusable`, the next request.

    A wait that is cancelled loses nothing: the next call goes on where it stopped. What the backend sends while
    nobody reads is kept up to a bound, above which the socket is read no more. One reader at a time.
    """

    def __init__(self, name: str, gone: Callable[[Connection], None]) -> None:
        self._name = name
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._fault: str | None = None
        self._reset()
        # Until a request is sent, whatever comes is an answer that nobody asked for.
        self.complete = True

    def _reset(self) -> None:
        self._status: int | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._bare = 0
        self._paused = False
        self._framed = False
        self._keep = False
        self.complete = False

    @property
    def reusable(self) -> bool:
        """Whether the answer came to its end and another request may follow it."""
        return (
            self.complete
            and self._keep
            and self._fault is None
            and not self._parts
            and not self._transport.is_closing()
        )

    @property
    def untouched(self) -> bool:
        """Whether nothing of an answer came yet."""
        return self._status is None and self._bare == 0

    def send(self, head: bytes, body: bytes) -> None:
        """Write a request; does not wait. A connection that broke meanwhile shows that in `head`.

        It leaves in the loop's next turn, together with those of other connections: a backend that is woken by
        the first finds them all.
        """
        self._reset()
        self._loop.call_soon(self._write, head + body)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def head(self) -> int:
        """The answer's status. Raises BrokenError."""
        while self._status is None:
            self._check()
            await self._wait()
        return self._status

    async def read(self) -> bytes:
        """What came of the body since the last call, waiting for more; empty at its end. Raises BrokenError."""
        while not self._parts:
            if self.complete:
                return b""
            self._check()
            await self._wait()
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self._size = [], 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def cut(self) -> None:
        """Close the connection at once, whatever is still to be sent or read."""
        self._transport.abort()

    def _check(self) -> None:
        if self._fault is not None:
            raise BrokenError(f"{self._name}: {self._fault}")

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, fault: str) -> None:
        self._fault = self._fault or fault
        self._wake()
        self.cut()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        before = self._size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("the answer is not HTTP")
            return
        if self._size != before:
            self._bare = 0
        elif not self.complete:
            self._bare += len(data)
            if self._bare > _MOST_HEAD_BYTES:
                self._fail("the answer's head is too large")
                return
        if self._size > _PAUSE_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if self._status is not None:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._status is not None and not self._framed and exc is None and self._fault is None:
            self.complete = True
        self._fault = self._fault or str(exc or "the connection was closed")
        self._wake()
        self._gone(self)

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("an answer that nobody asked for")
        self._framed = False

    def on_header(self, name: bytes, _: bytes) -> None:
        if len(name) in (14, 17) and name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)

    def on_message_complete(self) -> None:
        # An interim answer, such as 103, is a message of its own.
        if self._status is not None:
            self.complete = True
            # The parser knows it only here: it forgets the headers of a message that has ended.
            self._keep = self._parser.should_keep_alive()
