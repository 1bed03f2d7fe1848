"""The pool of connections to one backend, against real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import uvloop

from service.gateway import connections as module
from service.gateway.backends import Backend
from service.gateway.connections import Connections
from service.gateway.upstream import Upstream, header_line
from service.gateway.wire import Connection, UnreachableError
from service.settings import GatewaySettings

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Counting:
    """A backend that answers every request with `answer` and closes a connection after `most` of them."""

    answer: bytes = ANSWER
    most: int = 100
    url: str = ""
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        for _ in range(self.most):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            self.requests.append(head)
            writer.write(self.answer)
        writer.close()


def run(work: Callable[[Connections, Counting], Awaitable[None]], backend: Counting | None = None) -> None:
    """Do the work with a pool for a backend that runs, in the loop that the service uses."""

    async def main() -> None:
        counting = backend or Counting()
        server = await asyncio.start_server(counting, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        counting.url = f"http://127.0.0.1:{port}/base"
        pool = Connections(counting.url, connect_timeout_s=1, headers=b"X-Own: 1\r\n")
        try:
            await work(pool, counting)
        finally:
            pool.close()
            server.close()

    uvloop.run(main())


async def ask(pool: Connections) -> Connection:
    connection = await pool.take()
    connection.send(pool.head(b"GET", b"/x", b"", 0), b"")
    assert await connection.head() == 200
    while await connection.read():
        pass
    return connection


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        for _ in range(5):
            pool.give_back(await ask(pool))
        assert backend.connections == 1
        assert backend.requests[0].startswith(b"GET /base/x HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nX-Own: 1\r\nContent-Length: 0\r\n\r\n" in backend.requests[0]

    run(work)


def test_requests_at_the_same_time_do_not() -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        await asyncio.gather(*(ask(pool) for _ in range(3)))
        assert backend.connections == 3

    run(work)


def test_a_connection_that_the_backend_closes_is_not_taken_again() -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        for _ in range(3):
            pool.give_back(await ask(pool))
            await asyncio.sleep(0.02)
        assert backend.connections == 3

    run(work, Counting(most=1))


def test_the_backends_wish_to_close_is_obeyed() -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        for _ in range(2):
            pool.give_back(await ask(pool))
        assert backend.connections == 2

    run(work, Counting(answer=ANSWER.replace(b"Content", b"Connection: close\r\nContent", 1)))


def test_an_unasked_answer_to_an_idle_connection_is_never_read_as_one() -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        pool.give_back(await ask(pool))
        backend.writers[0].write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.02)
        await ask(pool)
        assert backend.connections == 2

    run(work)


def test_old_connections_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: Connections, backend: Counting) -> None:
        first, second = await asyncio.gather(ask(pool), ask(pool))
        pool.give_back(first)
        pool.give_back(second)
        await asyncio.sleep(0.03)
        await ask(pool)
        assert backend.connections == 3
        assert not first.reusable

    monkeypatch.setattr(module, "_KEEPALIVE_S", 0.02)
    run(work)


def test_a_refused_connection_says_that_nothing_was_sent() -> None:
    async def work(pool: Connections, _: Counting) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(UnreachableError):
                await Connections(url, connect_timeout_s=1, headers=b"").take()

    run(work)


def test_close_cuts_what_is_in_use() -> None:
    async def work(pool: Connections, _: Counting) -> None:
        used = await pool.take()
        pool.close()
        await asyncio.sleep(0)
        assert not used.reusable
        pool.give_back(used)
        assert not pool._idle and not pool._open

    run(work)


def test_health_and_aborts_survive_a_connection_that_went_stale_just_now() -> None:
    """The close is on its way, not read yet: the request goes into it and gets no answer."""

    async def work(_: Connections, backend: Counting) -> None:
        upstream = Upstream(GatewaySettings())
        await upstream.start()
        target = Backend(backend.url)
        assert await upstream.health(target, 1) == 200
        backend.writers[0].transport.abort()
        assert await upstream.abort(target, ["r1"])
        backend.writers[1].transport.abort()
        assert await upstream.health(target, 1) == 200
        assert backend.connections == 3
        await upstream.close()

    run(work)


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: 1", b"a\nb", b"a\0b"])
def test_no_header_value_can_become_two_lines(value: bytes) -> None:
    with pytest.raises(ValueError, match="line end"):
        header_line(b"traceparent", value)
