"""What is measured of one target in one round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from service.bench.gateway.client import StreamFigures, closed_loop, streams
from service.bench.gateway.plan import Pace, Plan, request_bytes
from service.bench.gateway.process import Server


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each phase does. Times are seconds, `every_ms` milliseconds."""

    sequential: int = 300
    concurrency: int = 32
    saturated: int = 8000
    saturated_s: float = 2.5
    streams: int = 64
    chunks: int = 100
    every_ms: int = 20
    rushing: int = 16
    rush_chunks: int = 1500
    phase_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Round:
    """One target's figures of one round; CPU and memory are None for the mock itself."""

    seq_ms_p50: float
    seq_ms_p99: float
    rps: float
    ttft_ms_p50: float
    chunk_delay_ms_p50: float
    chunk_delay_ms_p99: float
    burst_delay_ms_p50: float
    burst_delay_ms_p99: float
    chunks_per_s: float
    cpu_s_per_1k_requests: float | None
    cpu_s_per_100k_chunks: float | None
    rss_mb: float | None
    broken_streams: int
    longest_gap_ms: float


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie; nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def measure(url: str, server: Server | None, sizes: Sizes) -> Round:
    """Run every phase against `url`. `server` is the process whose CPU and memory count.

    Raises RuntimeError when the target fails requests.
    """
    host = urlsplit(url).netloc
    ask = request_bytes(host, None)
    await closed_loop(url, ask, 4, count=60, limit_s=sizes.phase_s)
    with _no_collections():
        sequential = (await closed_loop(url, ask, 1, count=sizes.sequential, limit_s=sizes.phase_s)).nanoseconds
        before = server.cpu_s() if server else 0.0
        load = await closed_loop(url, ask, sizes.concurrency, count=sizes.saturated, limit_s=sizes.saturated_s)
        request_cpu = server.cpu_s() - before if server else None
        before = server.cpu_s() if server else 0.0
        even = await _paced(url, host, sizes, "even")
        chunk_cpu = server.cpu_s() - before if server else None
        burst = await _paced(url, host, sizes, "burst")
        rush, rush_s = await _rush(url, host, sizes)
    even_delays = _delays(even)
    return Round(
        seq_ms_p50=statistics.median(sequential) / 1e6,
        seq_ms_p99=percentile(sequential, 0.99) / 1e6,
        rps=len(load.nanoseconds) / load.seconds,
        ttft_ms_p50=statistics.median([each.first for each in even if each.first is not None]) / 1e6,
        chunk_delay_ms_p50=statistics.median(even_delays) / 1e6,
        chunk_delay_ms_p99=percentile(even_delays, 0.99) / 1e6,
        burst_delay_ms_p50=statistics.median(_delays(burst)) / 1e6,
        burst_delay_ms_p99=percentile(_delays(burst), 0.99) / 1e6,
        chunks_per_s=len(_delays(rush)) / rush_s,
        cpu_s_per_1k_requests=None if request_cpu is None else request_cpu * 1e3 / len(load.nanoseconds),
        cpu_s_per_100k_chunks=None if chunk_cpu is None else chunk_cpu * 1e5 / len(even_delays),
        rss_mb=server.rss_mb() if server else None,
        broken_streams=sum(not each.whole for each in (*even, *burst, *rush)),
        longest_gap_ms=max(each.gap for each in (*even, *burst)) / 1e6,
    )


async def _paced(url: str, host: str, sizes: Sizes, pace: Pace) -> list[StreamFigures]:
    plan = Plan(sizes.chunks, sizes.every_ms, pace)
    # Evenly paced streams begin at different times, so that no two have the same clock.
    spread_s = 0.0 if pace == "burst" else sizes.streams * 0.0103
    limit_s = sizes.phase_s + plan.chunks * plan.every_ms / 1e3
    return await streams(url, request_bytes(host, plan), sizes.streams, spread_s=spread_s, limit_s=limit_s)


async def _rush(url: str, host: str, sizes: Sizes) -> tuple[list[StreamFigures], float]:
    request = request_bytes(host, Plan(sizes.rush_chunks, 0, "unpaced"))
    began = time.monotonic()
    figures = await streams(url, request, sizes.rushing, spread_s=0, limit_s=sizes.phase_s)
    return figures, time.monotonic() - began


def _delays(figures: Sequence[StreamFigures]) -> list[int]:
    return [delay for each in figures for delay in each.delays]


@contextmanager
def _no_collections() -> Iterator[None]:
    """The load generator's own garbage collections would count as delay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
