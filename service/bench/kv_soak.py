"""`specserve bench kv-soak`: requests that lose tokens, beside ones that do not, with aborts and retractions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from service.bench.client import Client
from service.kvcache.answer_keys import HELD_KEY, POISON_VARIABLE, last_value
from service.profiles.command import EngineCommand

AT_ONCE = 24
"""Requests in flight: more than run, so that some are aborted in the queue."""
SHORTEST, LONGEST = 60, 620
"""Prompt tokens."""
STRICT = {
    POISON_VARIABLE: "1",
    # SGLang takes running requests back to the queue now and then, as it does when the pool is full.
    "SGLANG_TEST_RETRACT": "true",
    "SGLANG_TEST_RETRACT_INTERVAL": "25",
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
}
"""Freed slots are poisoned, and the engine ends when its own count of slots is wrong."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request: whether it keeps its whole cache, drafts or not, and seconds until it is aborted, None: never."""

    prompt: tuple[int, ...]
    tokens: int
    whole: bool
    mode: str
    temperature: float
    abort_after: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: SGLang's reason, tokens, whether every log-probability is a number, tokens held at the end."""

    job: Job
    finish: str
    tokens: int
    sound: bool
    held: int | None


def strict(command: EngineCommand) -> EngineCommand:
    """The same engine with everything on that notices a mistake."""
    return replace(command, env=tuple(sorted((dict(command.env) | STRICT).items())))


def make_jobs(text: Sequence[int], count: int, seed: int, *, drafts: bool) -> list[Job]:
    """A third keeps its whole cache, half is drafted for, one in five is aborted; half share a prompt's beginning."""
    draw = random.Random(seed)
    jobs = []
    for number in range(count):
        length = draw.randrange(SHORTEST, LONGEST)
        begin = 0 if number % 2 else draw.randrange(len(text) - length)
        jobs.append(
            Job(
                prompt=tuple(text[begin : begin + length]),
                tokens=draw.randrange(16, 72),
                whole=number % 3 == 0,
                mode=draw.choice(("on", "off")) if drafts else "off",
                temperature=draw.choice((0.0, 0.0, 0.8)),
                abort_after=draw.uniform(0, 6) if draw.random() < 0.2 else None,
            )
        )
    return jobs


async def run_jobs(client: Client, jobs: Sequence[Job], limit_s: float) -> list[Outcome]:
    """Send all of them, some at once; none that would begin `limit_s` seconds after the first."""
    gate, began = asyncio.Semaphore(AT_ONCE), time.monotonic()

    async def one(number: int, job: Job) -> Outcome | None:
        async with gate:
            if time.monotonic() - began > limit_s:
                return None
            return await _send(client, f"soak-{number:04}", job)

    found = await asyncio.gather(*(one(number, job) for number, job in enumerate(jobs)))
    return [outcome for outcome in found if outcome is not None]


async def _send(client: Client, rid: str, job: Job) -> Outcome:
    wishes = {"mode": job.mode, **({"kv": "full"} if job.whole else {})}
    sampling = {
        "temperature": job.temperature,
        "max_new_tokens": job.tokens,
        "ignore_eos": True,
        "custom_params": {"specserve": wishes},
    }
    body = {"rid": rid, "input_ids": job.prompt, "sampling_params": sampling, "return_logprob": True}
    answer = asyncio.create_task(client.post("/generate", body))
    if job.abort_after is not None:
        await asyncio.wait({answer}, timeout=job.abort_after)
        await client.abort(rid)
    return outcome_of(job, (await answer)["meta_info"])


def outcome_of(job: Job, meta: dict[str, Any]) -> Outcome:
    """What an answer's `meta_info` says. A poisoned log-probability comes as null."""
    logprobs = [entry[0] for entry in meta.get("output_token_logprobs") or ()]
    sound = all(value is not None and isfinite(value) for value in logprobs)
    finish = str(meta["finish_reason"]["type"])
    return Outcome(job, finish, int(meta["completion_tokens"]), sound, last_value(meta, HELD_KEY))


def soak_row(outcomes: Sequence[Outcome], asked: int, free: tuple[int, int], retractions: int) -> dict[str, Any]:
    """One policy's figures and verdict; `free` are the pool's free tokens before and after."""
    ended = {reason: sum(outcome.finish == reason for outcome in outcomes) for reason in ("length", "abort")}
    whole = [outcome for outcome in outcomes if outcome.job.whole and outcome.finish == "length"]
    unsound = sum(not outcome.sound for outcome in outcomes)
    # Were nothing aborted, taken back or compressed, the run would prove nothing.
    compressed = [outcome.held for outcome in outcomes if outcome.held is not None]
    seen = bool(compressed) and bool(whole) and ended["abort"] > 0 and retractions > 0
    complete = len(outcomes) == asked and sum(ended.values()) == asked
    kept = all(outcome.held is None for outcome in whole)
    return {
        "requests": len(outcomes),
        "finished": ended["length"],
        "aborted": ended["abort"],
        "compressed": len(compressed),
        "drafted": sum(outcome.job.mode == "on" for outcome in outcomes),
        "retractions": retractions,
        "tokens": sum(outcome.tokens for outcome in outcomes),
        "most_held": max(compressed, default=None),
        "unsound": unsound,
        "free_before": free[0],
        "free_after": free[1],
        "passed": seen and complete and kept and not unsound and free[0] == free[1],
    }
