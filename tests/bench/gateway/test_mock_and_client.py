"""The mock engine and the load generator against each other, and what the generator makes of bad answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from service.bench.gateway.client import Reader, closed_loop, streams
from service.bench.gateway.mock import MockConnection, Ticker, stamped_chunk
from service.bench.gateway.phases import Sizes, measure
from service.bench.gateway.plan import STAMP, Pace, Plan, request_bytes


@asynccontextmanager
async def served(factory: Callable[[], asyncio.Protocol]) -> AsyncIterator[str]:
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def mock() -> AsyncIterator[str]:
    ticker = Ticker()
    async with served(lambda: MockConnection(ticker)) as url:
        yield url


class Refusal(asyncio.Protocol):
    """Answers everything with 429."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}")  # type: ignore[attr-defined]


class Cutting(Refusal):
    """Ends a stream in its middle."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + stamped_chunk())  # type: ignore[attr-defined]
        self.transport.close()


@pytest.mark.parametrize("pace", ["even", "burst", "unpaced"])
async def test_every_chunk_of_a_stream_is_seen(pace: Pace) -> None:
    async with mock() as url:
        plan = Plan(30, 2, pace)
        figures = await streams(url, request_bytes("x", plan), 3, spread_s=0.01, limit_s=10)
    for each in figures:
        assert each.whole
        assert len(each.delays) == 30
        assert each.first is not None
        assert all(0 < delay < 1e9 for delay in each.delays)


async def test_a_closed_loop_asks_exactly_as_often_as_told() -> None:
    async with mock() as url:
        answers = await closed_loop(url, request_bytes("x", None), 4, count=50, limit_s=10)
    assert len(answers.nanoseconds) == 50
    assert answers.seconds > 0


async def test_refusals_are_no_figures() -> None:
    async with served(Refusal) as url:
        with pytest.raises(RuntimeError, match="429"):
            await closed_loop(url, request_bytes("x", None), 2, count=10, limit_s=5)


async def test_a_stream_that_is_cut_is_not_whole() -> None:
    async with served(Cutting) as url:
        (figures,) = await streams(url, request_bytes("x", Plan(5, 1, "even")), 1, spread_s=0, limit_s=5)
    assert not figures.whole
    assert len(figures.delays) == 1


@pytest.mark.parametrize("cut", range(1, 400, 7))
async def test_a_stamp_that_comes_in_two_reads_is_seen_once(cut: int) -> None:
    class Wire(asyncio.Transport):
        def write(self, data: bytes) -> None: ...  # type: ignore[override]

    reader = Reader(b"")
    reader.connection_made(Wire())
    reader.ask()
    data = stamped_chunk() * 2
    reader.data_received(data[:cut])
    reader.data_received(data[cut:])
    assert len(reader.figures.delays) == 2


def test_the_plan_survives_the_prompt() -> None:
    plan = Plan(7, 20, "burst")
    assert Plan.find(request_bytes("x", plan)) == plan
    assert Plan.find(request_bytes("x", None)) is None
    assert len(STAMP.findall(stamped_chunk())) == 1


async def test_a_round_has_every_figure() -> None:
    async with mock() as url:
        sizes = Sizes(sequential=20, saturated=50, streams=4, chunks=5, every_ms=2, rushing=2, rush_chunks=20)
        figures = await measure(url, None, sizes)
    assert figures.rps > 0
    assert figures.chunks_per_s > 0
    assert figures.broken_streams == 0
    assert figures.cpu_s_per_1k_requests is None
