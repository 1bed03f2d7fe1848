"""From the options of `specserve bench gateway` to a run and its report."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from service.bench.gateway.peers import HOST, PEERS, Peer, Place, environment, install, own_command
from service.bench.gateway.phases import Sizes
from service.bench.gateway.process import Server
from service.bench.gateway.rounds import DIRECT, Target, row, run_rounds, unavailable, wait_ready
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.servers import free_port

OURS = "specserve"
REQUESTS = {
    "name": "target",
    "seq_added_ms_p50": "added ms p50",
    "seq_added_ms_p99": "added ms p99",
    "rps_c32": "requests/s",
    "ttft_added_ms_p50": "added TTFT ms",
    "cpu_s_per_1k_requests": "CPU s/1k requests",
    "rss_mb": "RSS MiB",
}
CHUNKS = {
    "name": "target",
    "chunk_delay_ms_p50": "chunk ms p50",
    "chunk_delay_ms_p99": "chunk ms p99",
    "burst_delay_ms_p50": "burst ms p50",
    "burst_delay_ms_p99": "burst ms p99",
    "chunks_per_s": "chunks/s",
    "cpu_s_per_100k_chunks": "CPU s/100k chunks",
    "broken_streams": "torn",
}


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `targets` narrows the comparison, empty for all."""

    targets: tuple[str, ...]
    rounds: int
    sizes: Sizes
    cache: Path
    out: Path
    say: Callable[[str], None]


@dataclass
class _Field:
    """What runs, and what does not with its reason."""

    running: list[Target] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)


async def run(options: Options) -> bool:
    """Measure and report; false when our own gateway could not be measured."""
    mock_port = free_port()
    mock = Target("mock", f"http://{HOST}:{mock_port}", _server(options, "mock", mock_port, _mock_command(mock_port)))
    contest = _Field([Target(DIRECT, mock.url, None)])
    servers = [mock]
    try:
        if reason := await wait_ready(mock):
            raise OSError(f"the mock engine: {reason}")
        for name in _wanted(options):
            target = await _start(name, mock.url, options, contest)
            if target is not None:
                servers.append(target)
        results = await run_rounds(contest.running, options.rounds, options.sizes, options.say)
    finally:
        await asyncio.gather(*(target.server.stop() for target in servers if target.server))
    direct = results[DIRECT]
    rows = [row(target.name, results[target.name], direct) for target in contest.running]
    rows += [unavailable(name, reason) for name, reason in contest.absent.items()]
    _report(options, rows, contest)
    return bool(results.get(OURS))


def _wanted(options: Options) -> list[str]:
    names = [OURS, *(peer.name for peer in PEERS)]
    return [name for name in names if not options.targets or name in options.targets]


async def _start(name: str, backend: str, options: Options, contest: _Field) -> Target | None:
    """Start one gateway and wait until it answers, noting the target or why there is none."""
    peer = next((peer for peer in PEERS if peer.name == name), None)
    place = Place(backend, free_port(), free_port(), options.out)
    if peer is not None:
        options.say(f"preparing {peer.requirement}")
        if reason := await asyncio.to_thread(install, options.cache, peer):
            _absent(name, reason, options, contest)
            return None
    command = _command(peer, place, options)
    contest.commands[name] = " ".join(command)
    server = _server(options, name, place.port, command, peer.env if peer else {})
    target = Target(name, server.url, server)
    if reason := await wait_ready(target):
        await server.stop()
        _absent(name, reason, options, contest)
        return None
    server.freeze()
    contest.running.append(target)
    return target


def _absent(name: str, reason: str, options: Options, contest: _Field) -> None:
    options.say(f"{name} is left out: {reason}")
    contest.absent[name] = reason


def _command(peer: Peer | None, place: Place, options: Options) -> list[str]:
    if peer is None:
        return own_command(place)
    return peer.command(environment(options.cache, peer) / "bin", place)


def _mock_command(port: int) -> list[str]:
    return [sys.executable, "-m", "service.bench.gateway.mock", str(port)]


def _server(
    options: Options, name: str, port: int, command: Sequence[str], env: dict[str, str] | None = None
) -> Server:
    return Server.start(name, f"http://{HOST}:{port}", command, options.out / "logs", env or {})


def _report(options: Options, rows: list[dict[str, Any]], contest: _Field) -> None:
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    summary = {
        "targets": rows,
        "rounds": options.rounds,
        "sizes": asdict(options.sizes),
        "commands": contest.commands,
        **machine,
    }
    options.say(f"written: {write_summary(options.out, summary)}")
    if missing := plots_missing():
        options.say(missing)
    else:
        _plot(options.out, [each for each in rows if each["rounds"]])
    for title, columns in (("Requests", REQUESTS), ("Streams", CHUNKS)):
        print_table(title, list(columns.values()), [[each[key] for key in columns] for each in rows])


def _plot(out: Path, rows: list[dict[str, Any]]) -> None:
    gateways = [each for each in rows if each["name"] != DIRECT]
    names = [each["name"] for each in gateways]
    labels = REQUESTS | CHUNKS
    charts = {
        "latency": ("Added latency", "ms", ("seq_added_ms_p50", "ttft_added_ms_p50", "chunk_delay_ms_p50")),
        "throughput": ("Requests and chunks", "per second", ("rps_c32", "chunks_per_s")),
        "cpu": ("CPU", "seconds", ("cpu_s_per_1k_requests", "cpu_s_per_100k_chunks")),
    }
    for file, (title, unit, keys) in charts.items():
        series = {labels[key]: [each[key] for each in gateways] for key in keys}
        if gateways:
            plot_bars(out / f"{file}.png", title, names, series, unit=unit)
