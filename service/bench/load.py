"""`specserve bench load`: does speculation ever cost? Throughput at rising and falling concurrency, against plain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any

from service.bench.client import Client, connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.profiles.schema import Profile, Speculation

PLAIN = "plain"
FLOOR = 0.97
"""Least share of plain throughput that drafts may leave at any concurrency."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One contestant at one concurrency: completion tokens over wall seconds, and what was drafted.

    `early` is the throughput over the first half of the answers: what it costs to adapt to the new load.
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
    say: Callable[[str], None],
) -> list[Phase]:
    """All engines up at once, idle ones asleep; they go through the phases in turn, so that noise meets all alike.

    `steps` are the concurrencies one after the other; each phase sends `rounds` requests for each place.
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
            turn = number % len(names)
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
    ends: list[tuple[float, int]] = []
    drafted = [0, 0]
    started = time.perf_counter()

    async def one(prompt: Prompt) -> None:
        async with gate:
            timing = await client.stream(prompt.messages, temperature=0, max_tokens=tokens, ignore_eos=True)
        ends.append((time.perf_counter() - started, timing.tokens))
        drafted[0] += timing.proposed or 0
        drafted[1] += timing.accepted or 0

    await asyncio.gather(*(one(prompt) for prompt in chosen))
    total = sum(count for _, count in ends)
    half = ends[: max(1, len(ends) // 2)]
    early = sum(count for _, count in half) / half[-1][0]
    return Phase(name, number, concurrency, len(chosen), total, ends[-1][0], early, drafted[0], drafted[1])


def load_rows(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """One row a phase; `speedup` and `early_speedup` are against plain in the same phase, None for plain."""
    plain = {phase.number: phase for phase in phases if phase.contestant == PLAIN}
    rows = []
    for phase in sorted(phases, key=lambda phase: phase.number):
        against = plain[phase.number]
        drafted = phase.contestant != PLAIN
        rows.append(
            asdict(phase)
            | {
                "tokens_per_second": phase.tokens_per_second,
                "speedup": phase.tokens_per_second / against.tokens_per_second if drafted else None,
                "early_speedup": phase.early / against.early if drafted else None,
            }
        )
    return rows
