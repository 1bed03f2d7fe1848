"""`specserve bench acceptance`: what each drafter and controller gets accepted and gains, by prompt category."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from service.bench.arms import arms_over_time
from service.bench.client import Timing, connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.bench.stock import KV_TOKENS
from service.bench.throughput import Contestant, Rates, measure_rates
from service.profiles.schema import Profile, Speculation

PLAIN, NGRAM = "plain", "ngram"


@dataclass(frozen=True)
class Field:
    """Who takes part: drafters one by one, and controllers that choose among all of them."""

    drafters: tuple[str, ...]
    controllers: tuple[tuple[str, ...], ...]
    draft_tokens: int
    options: Mapping[str, Mapping[str, Any]]
    ngram: bool = True

    def engines(self) -> dict[str, Speculation]:
        """The engines by name; all drafters share one, in which every request names its own."""
        ours = {"algorithm": "specserve", "drafters": self.drafters, "drafter_options": self.options}
        wanted: dict[str, dict[str, Any]] = {PLAIN: {"algorithm": "none"}}
        if self.ngram:
            wanted[NGRAM] = {"algorithm": "ngram", "draft_tokens": self.draft_tokens}
        wanted["drafters"] = {**ours, "controllers": ("fixed",), "draft_tokens": self.draft_tokens}
        for names in self.controllers:
            wanted["+".join(names)] = {**ours, "controllers": names, "draft_tokens": self.draft_tokens}
        return {name: Speculation.model_validate(fields) for name, fields in wanted.items()}


async def measure_acceptance(
    workshop: Workshop,
    base: Profile,
    field: Field,
    prompts: Sequence[Prompt],
    tokens: int,
    say: Callable[[str], None],
) -> list[Rates]:
    """All engines up at once, asked in turn for each prompt, cold: idle ones sleep, and noise meets all alike."""
    small = base.model_copy(update={"kv": base.kv.model_copy(update={"max_tokens": KV_TOKENS})})
    contestants: dict[str, Contestant] = {}
    async with AsyncExitStack() as stack:
        for name, speculation in field.engines().items():
            say(f"{name}: starting an engine")
            url = await stack.enter_async_context(
                workshop.serving(name, small.model_copy(update={"speculation": speculation}))
            )
            client = await stack.enter_async_context(connected(url, "engine", SERVED_NAME))
            if name == "drafters":
                contestants |= {drafter: Contestant(client, drafter=drafter) for drafter in field.drafters}
            else:
                contestants[name] = Contestant(client, choices=speculation.algorithm == "specserve")
        return await measure_rates(contestants, prompts, tokens, say)


def acceptance_rows(categories: Sequence[Rates]) -> list[dict[str, Any]]:
    """One row for each category and contestant; figures that do not exist are None."""
    return [
        {
            "category": rates.category,
            "drafter": name,
            "prompts": len(timings),
            **_counts(timings),
            "speedup": None if name == PLAIN else rates.ratio(name, PLAIN),
            "tokens_per_second": rates.tokens_per_second(name),
        }
        for rates in categories
        for name, timings in rates.timings.items()
    ]


def chosen_arms(categories: Sequence[Rates], names: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """What each of the named contestants chose while texts grew, over all categories; see `arms_over_time`."""
    return {
        name: arms_over_time(timing.details for rates in categories for timing in rates.timings.get(name, ()))
        for name in names
    }


def _counts(timings: Sequence[Timing]) -> dict[str, Any]:
    known = [(timing, timing.details) for timing in timings if timing.details is not None]
    details = [found for _, found in known]
    proposed = sum(found["spec_num_proposed_drafts"] for found in details)
    accepted = sum(found["spec_num_correct_drafts"] for found in details)
    # The first token comes from the prefill; what no step gave, speculation did not give either.
    decoded = sum(timing.tokens - 1 for timing, _ in known)
    steps = decoded - accepted
    return {
        "tokens_per_step": decoded / steps if steps else None,
        "acceptance_rate": accepted / proposed if proposed else None,
        "proposed_per_step": proposed / steps if steps else None,
        "accepted_drafts": accepted if known else None,
        "accepted_per_position": _positions(details),
        "by_source": _sources(details),
        "draft_ms_per_step": _draft_ms(details, steps),
    }


def _positions(details: Sequence[Mapping[str, Any]]) -> list[int]:
    """Accepted draft tokens at each position of a verify step: a step that accepts k accepts positions 0 to k-1."""
    counts: list[int] = []
    for found in details:
        for accepted, steps in enumerate(found["spec_correct_drafts_histogram"]):
            counts.extend([0] * (accepted - len(counts)))
            for position in range(accepted):
                counts[position] += steps
    return counts


def _sources(details: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for found in details:
        for source, counts in (found.get("specserve") or {}).get("sources", {}).items():
            own = total.setdefault(source, {"proposed": 0, "accepted": 0})
            own["proposed"] += counts["proposed"]
            own["accepted"] += counts["accepted"]
    return total


def _draft_ms(details: Sequence[Mapping[str, Any]], steps: int) -> float | None:
    seconds = [(found.get("specserve") or {}).get("draft_s") for found in details]
    known = [s for s in seconds if s is not None]
    return 1000 * sum(known) / steps if known and steps else None
