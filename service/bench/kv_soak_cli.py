"""From the options of `specserve bench kv-soak` to a run and its report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.bench.client import Client, connected
from service.bench.kv_soak import make_jobs, run_jobs, soak_row, strict
from service.bench.prompts import Prompt
from service.bench.quality_tasks import LONG
from service.bench.report import print_table, write_summary
from service.bench.servers import SERVED_NAME, Workshop, free_port
from service.bench.workshop import open_workshop
from service.profiles.command import engine_command
from service.profiles.schema import Profile, Speculation

COLUMNS = ("policy", "requests", "finished", "aborted", "compressed", "drafted", "retractions", "unsound", "passed")
POOL_TOKENS = 4096
"""Room for about seven whole requests of the longest kind."""
_IDLE_S = 60


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `limit_s` bounds each policy's run."""

    prompts: Sequence[Prompt]
    policies: tuple[str, ...]
    requests: int
    budget: int
    limit_s: float
    seed: int
    out: Path
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Measure and report; whether every policy gave back all slots and no answer was poisoned."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    rows = []
    for policy in options.policies:
        options.say(f"{policy}: starting an engine")
        began = time.perf_counter()
        row = {"policy": policy, **await _soak(workshop, _profile(base, policy, options.budget), policy, options)}
        rows.append(row)
        options.say(f"{policy}: {row['requests']} requests in {time.perf_counter() - began:.0f} s: {row}")
    passed = all(row["passed"] for row in rows)
    summary = {"model": base.target.model, "budget": options.budget, "seed": options.seed}
    options.say(f"written: {write_summary(options.out, summary | {'passed': passed, 'policies': rows})}")
    title = f"Soak: {options.requests} requests, kept tokens {options.budget}, pool of {POOL_TOKENS}"
    print_table(title, COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    return passed


def _profile(base: Profile, policy: str, budget: int) -> Profile:
    """A small pool. Requests lose tokens in ordinary steps and in verify steps."""
    kv = {"max_tokens": POOL_TOKENS, "eviction": policy, "budget": budget, "eviction_interval": 16, "selector": "none"}
    drafting = Speculation(drafter="prompt_lookup", controllers=("fixed",))
    return base.model_copy(update={"kv": base.kv.model_copy(update=kv), "speculation": drafting})


async def _soak(workshop: Workshop, profile: Profile, policy: str, options: Options) -> dict[str, Any]:
    port = free_port()
    target = workshop.source(profile.target.model)
    command = strict(engine_command(profile, port=port, served_name=SERVED_NAME, target=target))
    async with (
        workshop.running(f"soak-{policy}", command, port) as url,
        connected(url, "engine", SERVED_NAME) as client,
    ):
        text = await _tokens(client, options.prompts)
        jobs = make_jobs(text, options.requests, options.seed, drafts=True)
        before = await free_tokens(client)
        outcomes = await run_jobs(client, jobs, options.limit_s)
        after = await free_tokens(client)
        return soak_row(outcomes, options.requests, (before, after), await _retractions(client))


async def _tokens(client: Client, prompts: Sequence[Prompt]) -> list[int]:
    text = "\n".join(prompt.text for prompt in prompts if prompt.category in LONG)
    found: list[int] = (await client.post("/tokenize", {"model": SERVED_NAME, "prompt": text}))["tokens"]
    return found


async def free_tokens(client: Client) -> int:
    """Tokens of the idle engine's pool that nobody holds; the prefix cache is emptied."""
    for _ in range(_IDLE_S):
        load = (await client.get("/v1/loads"))["loads"][0]
        if not load["num_running_reqs"] + load["num_waiting_reqs"]:
            break
        await asyncio.sleep(1)
    await client.flush_cache()
    load = (await client.get("/v1/loads"))["loads"][0]
    return int(load["max_total_num_tokens"]) - int(load["num_used_tokens"])


async def _retractions(client: Client) -> int:
    """Requests that the engine took back to its queue."""
    lines = (await client.text("/metrics")).splitlines()
    return round(sum(float(x.split()[-1]) for x in lines if x.startswith("sglang:num_retracted_requests_total{")))
