"""One connection to a backend: whatever way its answer is cut into pieces, and whatever goes wrong in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.gateway.wire import BrokenError, Connection

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
T = TypeVar("T")
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class FakeTransport(asyncio.Transport):
    """Notes what is written and whether reading is paused; `abort` ends the connection at once."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.written = b""
        self.paused = False
        self.closing = False
        self._connection = connection
        connection.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        if not self.closing:
            self.closing = True
            self._connection.connection_lost(None)


def run(work: Callable[[Connection, FakeTransport], Awaitable[T]]) -> T:
    """Do the work on a connection whose request was sent."""

    async def main() -> T:
        connection = Connection("http://backend", lambda _: None)
        transport = FakeTransport(connection)
        connection.send(b"POST / HTTP/1.1\r\n\r\n", b"{}")
        return await work(connection, transport)

    return asyncio.run(main())


async def whole(connection: Connection) -> tuple[int, bytes]:
    status = await connection.head()
    parts = []
    while part := await connection.read():
        parts.append(part)
    return status, b"".join(parts)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    borders = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(borders) if start < end]


def chunked(parts: Iterable[bytes], trailer: bytes = b"") -> bytes:
    return CHUNKED + b"".join(b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n%s\r\n" % trailer


@given(
    parts=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 500), max_size=12),
    interim=st.booleans(),
    trailer=st.sampled_from([b"", b"X-Sum: 1\r\n"]),
)
def test_a_chunked_answer_is_the_same_however_it_is_cut(
    parts: list[bytes], cuts: list[int], interim: bool, trailer: bytes
) -> None:
    wire = (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" if interim else b"") + chunked(parts, trailer)

    async def work(connection: Connection, _: FakeTransport) -> tuple[tuple[int, bytes], bool]:
        reading = asyncio.ensure_future(whole(connection))
        for piece in pieces(wire, cuts):
            connection.data_received(piece)
            await asyncio.sleep(0)
        return await asyncio.wait_for(reading, 1), connection.reusable

    assert run(work) == ((200, b"".join(parts)), True)


@pytest.mark.parametrize(
    ("wire", "body", "kept"),
    [
        (LENGTH, b"hello", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", b"hello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + LENGTH, b"hello", True),
    ],
)
def test_the_connection_is_kept_only_where_the_backend_keeps_it(wire: bytes, body: bytes, kept: bool) -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        connection.data_received(wire)
        assert (await whole(connection))[1] == body
        assert connection.reusable is kept

    run(work)


def test_a_second_request_gets_its_own_answer() -> None:
    async def work(connection: Connection, transport: FakeTransport) -> None:
        connection.data_received(LENGTH)
        await whole(connection)
        connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
        assert not connection.complete
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")
        assert await whole(connection) == (404, b"no")
        assert transport.written.endswith(b"{}GET / HTTP/1.1\r\n\r\n")

    run(work)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_body_may_end_with_the_connection(version: bytes) -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        connection.data_received(b"HTTP/%s 200 OK\r\n\r\nhel" % version)
        assert await connection.read() == b"hel"
        connection.data_received(b"lo")
        connection.connection_lost(None)
        assert await whole(connection) == (200, b"lo")
        assert not connection.reusable

    run(work)


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
    ],
)
def test_an_answer_that_stops_too_early_is_broken(wire: bytes) -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        if wire:
            connection.data_received(wire)
        connection.connection_lost(None)
        with pytest.raises(BrokenError, match="closed"):
            await whole(connection)

    run(work)


def test_a_reset_breaks_even_a_body_without_a_length() -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nhel")
        connection.connection_lost(ConnectionResetError("reset"))
        assert await connection.read() == b"hel"
        with pytest.raises(BrokenError, match="reset"):
            await connection.read()

    run(work)


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        CHUNKED + b"zz\r\n",
    ],
)
def test_what_is_not_plain_http_is_broken_and_cut(wire: bytes) -> None:
    async def work(connection: Connection, transport: FakeTransport) -> None:
        connection.data_received(wire)
        with pytest.raises(BrokenError, match="not HTTP"):
            await whole(connection)
        assert transport.closing

    run(work)


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Pad: " + b"x" * 900 + b"\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 40),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", b"X-Trailer: " + b"x" * 900 + b"\r\n"),
        (CHUNKED + b"5", b";" + b"x" * 900),
    ],
    ids=["headers", "interim answers", "trailers", "chunk extensions"],
)
def test_a_head_without_an_end_is_cut(start: bytes, endless: bytes) -> None:
    async def work(connection: Connection, transport: FakeTransport) -> None:
        connection.data_received(start) if start else None
        for _ in range(100):
            if not transport.closing:
                connection.data_received(endless)
        with pytest.raises(BrokenError, match="too large"):
            await whole(connection)

    run(work)


def test_a_long_stream_in_small_pieces_is_not_taken_for_a_long_head() -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        connection.data_received(CHUNKED)
        for _ in range(20_000):
            for piece in (b"1\r\n", b"x", b"\r\n"):
                connection.data_received(piece)
        assert await connection.read() == b"x" * 20_000

    run(work)


def test_reading_pauses_while_nobody_takes_the_answer() -> None:
    async def work(connection: Connection, transport: FakeTransport) -> None:
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2**18)
        assert not transport.paused
        connection.data_received(b"x")
        assert transport.paused
        assert len(await connection.read()) == 2**18 + 1
        assert not transport.paused

    run(work)


def test_a_cancelled_wait_loses_nothing() -> None:
    async def work(connection: Connection, _: FakeTransport) -> None:
        for step in (connection.head, connection.read):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(step(), 0.001)
        connection.data_received(LENGTH)
        assert await whole(connection) == (200, b"hello")

    run(work)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def work(connection: Connection, transport: FakeTransport) -> None:
        connection.data_received(LENGTH + LENGTH)
        assert await whole(connection) == (200, b"hello")
        assert transport.closing
        assert not connection.reusable

    run(work)
