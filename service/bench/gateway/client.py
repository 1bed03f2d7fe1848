"""The load generator: bare asyncio protocols that look for the end of an answer and parse nothing else."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from service.bench.gateway.plan import STAMP

_LENGTH = re.compile(rb"content-length: *(\d+)", re.I)
_OK = re.compile(rb"HTTP/1\.1 2\d\d ")
_END = b"0\r\n\r\n"
_CARRY = 18


class Asker(asyncio.Protocol):
    """Sends one request after the other on one connection, and calls `answered` with each answer's nanoseconds."""

    def __init__(self, request: bytes, answered: Callable[[Asker, int], None]) -> None:
        self._request = request
        self._answered = answered
        self._buffer = b""
        self._need = 0
        self._sent = 0
        self.failure: str | None = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        """Send the request; its answer must have come before the next call."""
        self._buffer, self._need = b"", 0
        self._sent = time.monotonic_ns()
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer = self._buffer + data if self._buffer else data
        if not self._need:
            head = buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(buffer, 0, head)
            if _OK.match(buffer) is None:
                self.failure = buffer[:200].decode("latin-1")
            self._need = head + 4 + int(length[1]) if length else -1
        if len(buffer) >= self._need if self._need > 0 else buffer.endswith(_END):
            self._answered(self, time.monotonic_ns() - self._sent)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(exc)


@dataclass(slots=True)
class StreamFigures:
    """What one stream showed; times are nanoseconds. `gap` is the longest silence after the first chunk.

    A gateway that cuts the stream at other places may hide a stamp, so `delays` need not hold every chunk.
    """

    first: int | None = None
    delays: list[int] = field(default_factory=list)
    gap: int = 0
    whole: bool = False


class Reader(asyncio.Protocol):
    """Asks for one stream and reads the stamps in it."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._carry = b""
        self._last = 0
        self.figures = StreamFigures()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        """Send the request."""
        self._sent = time.monotonic_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        # What the last read ended with is too short for a whole stamp, so none is found twice.
        data = self._carry + data
        figures = self.figures
        stamps = STAMP.findall(data)
        if stamps:
            if figures.first is None:
                figures.first = now - self._sent
            elif now - self._last > figures.gap:
                figures.gap = now - self._last
            self._last = now
            figures.delays.extend([now - int(stamp) for stamp in stamps])
        if b"data: [DONE]" in data:
            figures.whole = True
        if data.endswith(_END):
            self._end()
        self._carry = data[-_CARRY:]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


@dataclass(frozen=True, slots=True)
class Answers:
    """Nanoseconds of each answer, and seconds from the first request to the last answer."""

    nanoseconds: list[int]
    seconds: float


async def closed_loop(url: str, request: bytes, connections: int, *, count: int, limit_s: float) -> Answers:
    """Each connection asks again as soon as it was answered, `count` times in all.

    Stops early after `limit_s`. Raises RuntimeError when an answer is no 2xx or a connection breaks.
    """
    loop = asyncio.get_running_loop()
    times: list[int] = []
    left, last = count, 0
    done = loop.create_future()

    def answered(asker: Asker, nanoseconds: int) -> None:
        nonlocal left, last
        last = time.monotonic_ns()
        times.append(nanoseconds)
        left -= 1
        if left >= connections:
            asker.ask()
        elif not left and not done.done():
            done.set_result(None)

    address = urlsplit(url)
    askers: list[Asker] = []
    for _ in range(connections):
        _, asker = await loop.create_connection(
            lambda: Asker(request, answered), address.hostname or "", address.port or 80
        )
        asker.lost.add_done_callback(lambda _: None if done.done() else done.set_result(None))
        askers.append(asker)
    begun = time.monotonic_ns()
    for asker in askers:
        asker.ask()
    try:
        async with asyncio.timeout(limit_s):
            await done
    except TimeoutError:
        done.cancel()
    for asker in askers:
        asker.transport.close()
    failures = [asker.failure for asker in askers if asker.failure]
    if failures or not times:
        raise RuntimeError(failures[0] if failures else "no answer came")
    return Answers(times, (last - begun) / 1e9)


async def streams(url: str, request: bytes, count: int, *, spread_s: float, limit_s: float) -> list[StreamFigures]:
    """`count` streams at once, begun one after the other over `spread_s`; what each showed, whole or not."""
    loop = asyncio.get_running_loop()
    address = urlsplit(url)
    readers = [
        (await loop.create_connection(lambda: Reader(request), address.hostname or "", address.port or 80))[1]
        for _ in range(count)
    ]
    for number, reader in enumerate(readers):
        loop.call_later(spread_s * number / count, reader.ask)
    await asyncio.wait([reader.ended for reader in readers], timeout=limit_s)
    for reader in readers:
        reader.close()
    return [reader.figures for reader in readers]
