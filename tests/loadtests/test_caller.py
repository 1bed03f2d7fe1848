"""One request over a real socket: whole, cut off, silent, refused, left."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from loadtests.caller import Call, Caller, Leave, now

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-specserve-pool: fast\r\n\r\n"
PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
END = b"data: [DONE]\n\n"
BODY = {"stream": True, "messages": []}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Reads one request on each connection and lets `answer` speak."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def ask(url: str, *, limit_s: float = 5.0, leave: Leave | None = None) -> tuple[str, str | None, int]:
    caller = Caller(url, clock=now, limit_s=limit_s)
    record = caller.call(Call("chat", BODY, leave=leave)).record
    caller.close()
    assert caller.open == 0
    return record.outcome, record.error, 0 if record.ttft_s is None else 1 + len(record.gaps_s)


def test_a_whole_stream() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD + chunk(PIECE) + chunk(PIECE[:9]) + chunk(PIECE[9:]) + chunk(END) + b"0\r\n\r\n")

    with server(answer) as url:
        assert ask(url) == ("ok", None, 2)


@pytest.mark.parametrize("tail", [b"0\r\n\r\n", b""])
def test_a_stream_that_stops_before_its_end_has_failed(tail: bytes) -> None:
    with server(lambda connection: connection.sendall(HEAD + chunk(PIECE) + tail)) as url:
        outcome, error, pieces = ask(url)
    assert (outcome, pieces) == ("failed", 1)
    assert error


def test_a_silent_server_fails_within_the_limit() -> None:
    release = threading.Event()
    with server(lambda connection: bool(release.wait(10)) and None) as url:
        outcome, error, _ = ask(url, limit_s=0.2)
        release.set()
    assert (outcome, error) == ("failed", "no end within 0.2 s")


def test_a_refusal_is_told_apart_from_a_failure() -> None:
    body = b'{"error":{"message":"later"}}'
    head = b"HTTP/1.1 %s\r\ncontent-length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    with server(lambda connection: connection.sendall(head % b"429 Too Many")) as url:
        assert ask(url)[:2] == ("refused", body.decode())
    with server(lambda connection: connection.sendall(head % b"500 Oh")) as url:
        assert ask(url)[0] == "failed"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert ask(f"http://127.0.0.1:{port}")[0] == "failed"


@pytest.mark.parametrize("leave", [Leave(pieces=1), Leave(after_s=0.1)])
def test_a_client_that_leaves_closes_its_connection(leave: Leave) -> None:
    closed = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD + chunk(PIECE))
        connection.settimeout(5)
        if connection.recv(1) == b"":
            closed.set()

    with server(answer) as url:
        assert ask(url, leave=leave) == ("left", None, 1)
        assert closed.wait(5)


def test_half_of_the_clients_are_dropped_at_once() -> None:
    import gevent

    release = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD + chunk(PIECE))

        def later() -> None:
            release.wait(10)
            connection_copy.sendall(chunk(END) + b"0\r\n\r\n")
            connection_copy.close()

        connection_copy = connection.dup()
        threading.Thread(target=later, daemon=True).start()

    with server(answer) as url:
        caller = Caller(url, clock=now, limit_s=10)
        calls = [gevent.spawn(caller.call, Call("chat", BODY)) for _ in range(4)]
        gevent.sleep(0.3)
        assert caller.open == 4
        assert caller.drop(0.5) == 2
        release.set()
        gevent.joinall(calls, timeout=5)
        outcomes = sorted(call.value.record.outcome for call in calls)
    assert outcomes[:2] == ["left", "left"]
    assert len(outcomes) == 4
