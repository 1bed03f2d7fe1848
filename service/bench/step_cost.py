"""What a verify pass costs by its width, measured inside single requests on a real engine."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from service.bench.client import Client
from service.bench.widths import VERIFIED
from service.errors import EngineError
from service.profiles.schema import Profile, Speculation

_PROMPT = "Tell a long story about a lighthouse keeper, his daughter and the sea."
_UNSETTLED_STEPS = 5


@dataclass(frozen=True, slots=True)
class StepCost:
    """Verifying `tokens` tokens in one pass: median milliseconds, and how often a narrowest pass that is."""

    tokens: int
    ms: float
    ratio: float
    steps: int


def width_profile(base: Profile) -> Profile:
    """`base` with the always-wrong drafter that goes through the widths."""
    speculation = Speculation(
        algorithm="specserve", drafter="bench_widths", controllers=("fixed",), draft_tokens=max(VERIFIED)
    )
    return base.model_copy(update={"speculation": speculation})


async def measure_step_costs(client: Client, *, requests: int, tokens: int) -> tuple[StepCost, ...]:
    """Median time between two tokens by the width of the pass that made the later one.

    The drafts are always rejected, so each pass emits one token and the widths follow each other in a known order:
    whatever disturbs the machine for longer than a few steps disturbs all widths alike. Raises EngineError when a
    draft was accepted after all.
    """
    spent: dict[int, list[float]] = defaultdict(list)
    for _ in range(requests):
        for position, seconds in await _gaps(client, tokens):
            spent[VERIFIED[(position - 1) % len(VERIFIED)]].append(seconds)
    narrowest = median(spent[VERIFIED[0]])
    return tuple(
        StepCost(width, 1000 * median(spent[width]), median(spent[width]) / narrowest, len(spent[width]))
        for width in VERIFIED
    )


async def _gaps(client: Client, tokens: int) -> list[tuple[int, float]]:
    """(position, seconds since the token before) of tokens that arrived alone, without the first and last steps."""
    params = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"text": _PROMPT, "sampling_params": params, "stream": True}
    gaps, count, last, accepted = [], 0, time.perf_counter(), 0
    async for event in client.events("/generate", body):
        now, meta = time.perf_counter(), event["meta_info"]
        if meta["completion_tokens"] == count + 1 and count >= _UNSETTLED_STEPS:
            gaps.append((count, now - last))
        count, last = meta["completion_tokens"], now
        accepted = meta.get("spec_num_correct_drafts", 0)
    if accepted:
        raise EngineError(f"{accepted} drafts of `bench_widths` were accepted: the widths of the steps are not known")
    return [(position, seconds) for position, seconds in gaps if position + max(VERIFIED) < tokens]
