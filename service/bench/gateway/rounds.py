"""Interleaved rounds over all targets, and their medians."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from service.bench.gateway.client import closed_loop
from service.bench.gateway.phases import Round, Sizes, measure
from service.bench.gateway.plan import request_bytes
from service.bench.gateway.process import Server

DIRECT = "direct"
_READY_S = 90.0
_SETTLE_S = 0.4


@dataclass(frozen=True)
class Target:
    """What is measured: `server` is None for the mock without a gateway."""

    name: str
    url: str
    server: Server | None


async def wait_ready(target: Target) -> str | None:
    """Until the target answers a chat completion; why it does not, None when it does."""
    host = target.url.removeprefix("http://")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _READY_S
    reason = "it does not listen"
    while loop.time() < deadline:
        if target.server is not None and not target.server.alive:
            return f"it ended by itself; see {target.server.log}"
        try:
            await closed_loop(target.url, request_bytes(host, None), 1, count=1, limit_s=20)
            return None
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
        except OSError:
            pass
        await asyncio.sleep(0.3)
    return f"not ready after {_READY_S:.0f} s: {reason}"


async def run_rounds(
    targets: Sequence[Target], rounds: int, sizes: Sizes, say: Callable[[str], None]
) -> dict[str, list[Round]]:
    """Measure each target `rounds` times, in another order each time; the others are frozen meanwhile.

    A target that fails in a round has no figures of that round.
    """
    results: dict[str, list[Round]] = {target.name: [] for target in targets}
    for target in targets:
        if target.server:
            target.server.freeze()
    for number in range(rounds):
        turn = number % len(targets)
        for target in [*targets[turn:], *targets[:turn]]:
            say(f"round {number + 1}/{rounds}: {target.name}")
            measured = await _one(target, sizes, say)
            if measured is not None:
                results[target.name].append(measured)
    return results


async def _one(target: Target, sizes: Sizes, say: Callable[[str], None]) -> Round | None:
    """The target's figures, the others frozen; None, and the reason said, when it failed."""
    if target.server:
        target.server.thaw()
    await asyncio.sleep(_SETTLE_S)
    try:
        return await measure(target.url, target.server, sizes)
    except (RuntimeError, OSError) as error:
        say(f"{target.name} failed: {error}")
        return None
    finally:
        if target.server:
            target.server.freeze()


def row(name: str, rounds: Sequence[Round], direct: Sequence[Round]) -> dict[str, Any]:
    """One target's medians; what is `added` is against the mock without a gateway in the same round."""
    own = _medians(rounds)
    base = _medians(direct)
    added = {} if name == DIRECT else {key: own[key] - base[key] for key in own if own[key] is not None and key in base}
    return {
        "name": name,
        "seq_added_ms_p50": added.get("seq_ms_p50"),
        "seq_added_ms_p99": added.get("seq_ms_p99"),
        "rps_c32": own.get("rps"),
        "ttft_added_ms_p50": added.get("ttft_ms_p50"),
        **{key: own.get(key) for key in _SHARED},
        "rounds": len(rounds),
        "unavailable": None,
        "spread": _spread(rounds),
    }


_SHARED = (
    "chunk_delay_ms_p50",
    "chunk_delay_ms_p99",
    "burst_delay_ms_p50",
    "burst_delay_ms_p99",
    "chunks_per_s",
    "cpu_s_per_1k_requests",
    "cpu_s_per_100k_chunks",
    "rss_mb",
    "broken_streams",
    "longest_gap_ms",
    "seq_ms_p50",
    "seq_ms_p99",
    "ttft_ms_p50",
)


def unavailable(name: str, reason: str) -> dict[str, Any]:
    """The row of a target that could not be measured: every figure is null."""
    return {**row(name, (), ()), "unavailable": reason}


def _medians(rounds: Sequence[Round]) -> dict[str, Any]:
    return {name: statistics.median(values) for name, values in _columns(rounds).items()}


def _spread(rounds: Sequence[Round]) -> Mapping[str, list[float]]:
    """Least and largest of each figure."""
    return {name: [min(values), max(values)] for name, values in _columns(rounds).items()}


def _columns(rounds: Sequence[Round]) -> dict[str, list[float]]:
    columns = {each.name: [getattr(one, each.name) for one in rounds] for each in fields(Round)}
    return {name: values for name, values in columns.items() if values and None not in values}
