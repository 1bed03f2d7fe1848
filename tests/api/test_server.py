"""The way of a generating request: no layer of FastAPI, and an answer whose head and body leave together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from service.api.serve import settle
from service.api.server import Joined, make_server
from tests.doubles.stack import MODEL, running_stack

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Sink(asyncio.Transport):
    """Notes each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def written(work: Callable[[Joined], None]) -> tuple[list[bytes], list[bytes]]:
    """The writes when the work is done, and those of one turn of the loop later."""

    async def main() -> tuple[list[bytes], list[bytes]]:
        sink = Sink()
        work(Joined(sink))
        at_once = list(sink.writes)
        await asyncio.sleep(0)
        return at_once, list(sink.writes)

    return asyncio.run(main())


def test_a_head_leaves_in_the_next_turn_with_what_followed_it() -> None:
    def work(transport: Joined) -> None:
        for data in (HEAD, b"a", b"b"):
            transport.write(data)

    assert written(work) == ([], [HEAD + b"ab"])


def test_a_chunk_of_a_stream_leaves_at_once() -> None:
    assert written(lambda transport: transport.write(b"1\r\na\r\n"))[0] == [b"1\r\na\r\n"]


def test_a_close_takes_along_what_waits() -> None:
    def work(transport: Joined) -> None:
        transport.write(HEAD)
        transport.close()

    assert written(work) == ([HEAD], [HEAD])


def test_a_closed_transport_gets_nothing() -> None:
    def work(transport: Joined) -> None:
        transport.write(HEAD)
        transport._transport.close()

    assert written(work) == ([], [])


def test_a_served_answer_is_one_read_for_its_client() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

    async def main() -> bytes:
        server = make_server(app, "127.0.0.1", 0, drain_s=1)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read(65536)
        writer.close()
        server.should_exit = True
        await serving
        return answer

    answer = uvloop.run(main())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nok")


def test_requests_that_generate_pass_nothing_of_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_stack() as running:

        def refuse(*_: object) -> None:
            raise AssertionError("it passed FastAPI's layers")

        monkeypatch.setattr(running.app, "middleware_stack", refuse)
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
        assert running.http.post("/v1/chat/completions", json=body).status_code == 200
        assert running.http.post("/v1/completions", json={"model": MODEL, "prompt": "Hi"}).status_code == 200


def test_settling_freezes_what_the_start_made() -> None:
    thresholds = gc.get_threshold()
    try:
        settle()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] > thresholds[0]
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
