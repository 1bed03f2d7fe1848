"""From the options of `specserve bench kv-cost` to a run and its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from service.bench.client import Client
from service.bench.kv_cost import Contest
from service.bench.kv_cost_run import TOKENS, measure_contest
from service.bench.plots import plot_lines
from service.bench.prompts import Prompt
from service.bench.quality_tasks import LONG
from service.bench.report import plots_missing, print_table, write_summary
from service.bench.servers import SERVED_NAME
from service.bench.workshop import open_workshop
from service.engine.plan import shape_of
from service.errors import ConfigError
from service.kvcache.eviction import eviction_registry
from service.kvcache.selection import selector_registry
from service.profiles.kv_methods import slot_bytes, whole_cache
from service.profiles.schema import KvCache

STEPS = ("policy", "context", "whole_ms", "ms", "speedup", "mean_ms", "whole_bytes", "bytes")
CROSSOVERS = ("policy", "crossover_predicted", "crossover_measured", "identical_within_budget")


@dataclass(frozen=True)
class Options:
    """What the command line asked for; no policies and selectors: all that are registered.

    `limit_s` seconds after the start no further engine is begun.
    """

    prompts: Sequence[Prompt]
    policies: tuple[str, ...]
    selectors: tuple[str, ...]
    contexts: tuple[int, ...]
    budget: int
    limit_s: float
    out: Path
    say: Callable[[str], None]

    def caches(self, base: KvCache) -> list[KvCache]:
        """One KV cache for each policy and selector, with room for the longest text twice."""
        plain, room = whole_cache(base), {"max_tokens": 2 * max(self.contexts) + 1024}
        all_of = not self.policies and not self.selectors
        evictors = self.policies or (tuple(eviction_registry()) if all_of else ())
        selectors = self.selectors or (tuple(selector_registry()) if all_of else ())
        evicting = [{"eviction": name, "budget": self.budget} for name in evictors if name != "none"]
        selecting = [{"selector": name, "selector_tokens": self.budget} for name in selectors if name != "none"]
        # Policies and selectors in turn, so that a run that is cut short has some of both.
        turns = [entry for pair in zip_longest(evicting, selecting) for entry in pair if entry is not None]
        return [KvCache.model_validate(plain.model_dump() | room | entry) for entry in turns]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Measure and report; whether all were measured and left texts within their budget as they are."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    shape = shape_of(workshop.store, base.target.model)
    if shape is None:
        raise ConfigError([f"target.model: {base.target.model} has no config.json at hand"])
    longest = base.target.context_length or shape.context_length
    if longest is not None and max(options.contexts) + TOKENS > longest:
        raise ConfigError([f"--context: {max(options.contexts)} and {TOKENS} of answer exceed the model's {longest}"])

    async def text(client: Client) -> list[int]:
        found = [prompt.text for prompt in options.prompts if prompt.category in LONG]
        ids: list[int] = (await client.post("/tokenize", {"model": SERVED_NAME, "prompt": "\n".join(found)}))["tokens"]
        if len(ids) < max(options.contexts):
            raise ConfigError([f"--prompts: {'/'.join(LONG)} hold {len(ids)} tokens: lower --context"])
        return ids

    contests: list[Contest] = []
    began = time.monotonic()
    caches = options.caches(base.kv)
    for kv in caches:
        if time.monotonic() - began > options.limit_s:
            options.say(f"{len(caches) - len(contests)} of {len(caches)} are left out: {options.limit_s:g} s are over")
            break
        options.say(f"{kv.eviction if kv.selector == 'none' else kv.selector}: starting an engine")
        profile = base.model_copy(update={"kv": kv})
        contests.append(await measure_contest(workshop, profile, shape, text, options.contexts, options.say))
    slot = slot_bytes(whole_cache(base.kv), shape, base.target.dtype)
    _report(options, base.target.model, contests, slot)
    return len(contests) == len(caches) and all(contest.identical for contest in contests)


def _report(options: Options, model: str, contests: Sequence[Contest], slot: int) -> None:
    rows = [row for contest in contests for row in contest.rows(slot)]
    ends = [contest.summary() for contest in contests]
    summary = {"model": model, "budget": options.budget, "slot_bytes": slot, "policies": ends, "steps": rows}
    options.say(f"written: {write_summary(options.out, summary)}")
    if (reason := plots_missing()) is not None:
        options.say(reason)
    else:
        series = {c.policy: [row["speedup"] for row in c.rows(slot)] for c in contests}
        title = f"Decode steps, whole cache over policy, {options.budget} tokens kept or read"
        plot_lines(
            options.out / "kv-cost.png", title, series, x="tokens of context", y="times faster", at=options.contexts
        )
    print_table("Decode steps", STEPS, [[row[column] for column in STEPS] for row in rows])
    print_table("Crossover, tokens of context", CROSSOVERS, [[row[column] for column in CROSSOVERS] for row in ends])
