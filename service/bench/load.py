"""`specserve bench load`: does speculation ever cost? Throughput at rising and falling concurrency, against plain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from itertools import accumulate, cycle, islice
from typing import Any

from service.bench.client import Client, Timing, connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.profiles.schema import Profile, Speculation

PLAIN = "plain"
FLOOR = 0.97
"""Least share of plain throughput that drafts may leave at any concurrency."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One contestant at one concurrency: completion tokens over wall seconds, and what was drafted.

    `early` is the throughput while the first half of all text arrives: what it costs to adapt to the new load. A phase
    may be repeated: all repeats have the same `number`.
    """

    contestant: str
    number: int
    concurrency: int
    requests: int
    tokens: int
    seconds: float
    early: float
    proposed: int
    accepted: int

    @property
    def tokens_per_second(self) -> float:
        """Completion tokens of all requests a second."""
        return self.tokens / self.seconds


async def measure_load(
    workshop: Workshop,
    base: Profile,
    contestants: Mapping[str, Speculation],
    prompts: Sequence[Prompt],
    steps: Sequence[int],
    tokens: int,
    rounds: int,
    repeats: int,
    say: Callable[[str], None],
) -> list[Phase]:
    """All engines up at once, idle ones asleep; they go through the phases in turn, so that noise meets all alike.

    `steps` are the concurrencies one after the other; each phase sends `rounds` requests for each place, and is
    repeated with the contestants in another order each time.
    """
    phases = []
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for name, speculation in contestants.items():
            say(f"{name}: starting an engine")
            profile = base.model_copy(update={"speculation": speculation})
            url = await stack.enter_async_context(workshop.serving(f"load-{name}", profile))
            clients[name] = await stack.enter_async_context(connected(url, "engine", SERVED_NAME))
        names = list(clients)
        for number, concurrency in enumerate(steps):
            for repeat in range(repeats):
                turn = (number + repeat) % len(names)
                for name in names[turn:] + names[:turn]:
                    phase = await _phase(clients[name], name, number, concurrency, prompts, tokens, rounds)
                    phases.append(phase)
                    say(f"{concurrency} at once, {name}: {phase.tokens_per_second:.1f} tokens/s")
    return phases


async def _phase(
    client: Client, name: str, number: int, concurrency: int, prompts: Sequence[Prompt], tokens: int, rounds: int
) -> Phase:
    await client.flush_cache()
    chosen = list(islice(cycle(prompts), concurrency * rounds))
    gate = asyncio.Semaphore(concurrency)
    began = time.perf_counter()

    async def one(prompt: Prompt) -> tuple[float, Timing]:
        async with gate:
            sent = time.perf_counter() - began
            return sent, await client.stream(prompt.messages, temperature=0, max_tokens=tokens, ignore_eos=True)

    answers = await asyncio.gather(*(one(prompt) for prompt in chosen))
    seconds = time.perf_counter() - began
    total = sum(timing.tokens for _, timing in answers)
    early = total / 2 / half_way([(sent + at, text) for sent, timing in answers for at, text in timing.arrivals])
    proposed = sum(timing.proposed or 0 for _, timing in answers)
    accepted = sum(timing.accepted or 0 for _, timing in answers)
    return Phase(name, number, concurrency, len(chosen), total, seconds, early, proposed, accepted)


def half_way(arrivals: Sequence[tuple[float, int]]) -> float:
    """When half of all text was there, from (seconds, characters) in any order; counted in whole pieces."""
    pieces = sorted(arrivals)
    half = sum(size for _, size in pieces) / 2
    came = accumulate(size for _, size in pieces)
    return next(at for (at, _), so_far in zip(pieces, came, strict=True) if so_far >= half)


def load_rows(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """One row a phase and contestant, its repeats in one; the speedups are against plain, None for plain.

    `speedup` and `early_speedup` are of all repeats together; `speedups` has each repeat's own, so that a reader sees
    how much the machine's noise leaves open.
    """
    groups: dict[tuple[int, str], list[Phase]] = {}
    for phase in phases:
        groups.setdefault((phase.number, phase.contestant), []).append(phase)
    rows = []
    for (number, contestant), repeats in sorted(groups.items(), key=lambda item: item[0][0]):
        plain, row = groups[number, PLAIN], _together(repeats)
        against = _together(plain)
        drafted = contestant != PLAIN
        pairs = zip(repeats, plain, strict=True)
        rows.append(
            asdict(row)
            | {
                "tokens_per_second": row.tokens_per_second,
                "speedup": row.tokens_per_second / against.tokens_per_second if drafted else None,
                "speedups": [a.tokens_per_second / b.tokens_per_second for a, b in pairs] if drafted else None,
                "early_speedup": row.early / against.early if drafted else None,
            }
        )
    return rows


def _together(repeats: Sequence[Phase]) -> Phase:
    """One phase of the repeats' sums; `early` is their mean."""
    first = repeats[0]
    return Phase(
        first.contestant,
        first.number,
        first.concurrency,
        requests=sum(phase.requests for phase in repeats),
        tokens=sum(phase.tokens for phase in repeats),
        seconds=sum(phase.seconds for phase in repeats),
        early=sum(phase.early for phase in repeats) / len(repeats),
        proposed=sum(phase.proposed for phase in repeats),
        accepted=sum(phase.accepted for phase in repeats),
    )
