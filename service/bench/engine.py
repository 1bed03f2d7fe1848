"""`specserve bench engine`: what our CPU path and drafts gain, as ratios measured side by side."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from service.bench.client import connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop, free_port
from service.bench.step_cost import StepCost, measure_step_costs, width_profile
from service.bench.stock import KV_TOKENS, stock_command
from service.bench.throughput import Contestant, Rates, measure_rates
from service.profiles.schema import Profile, Speculation

PLAIN, STOCK, NGRAM, OURS = "plain", "stock", "ngram_cold", "specserve"
AIMS = {"stock": 2.0, "verify_8": 1.8, "rag": 1.5, "code_completion": 1.5}
"""Plain decode over stock, cost of verifying 8 tokens, and SPECSERVE over plain where answers copy."""
_SHORT_PROMPT = 1500


@dataclass(frozen=True)
class Effort:
    """How much is measured: prompts a category, tokens an answer, requests and tokens for the step costs."""

    tokens: int = 96
    stock_prompts: int = 6
    width_requests: int = 3
    width_tokens: int = 200


QUICK = Effort(tokens=48, stock_prompts=2, width_requests=1, width_tokens=120)


@dataclass(frozen=True)
class EngineResult:
    """All that was measured; None and empty where it was not."""

    categories: Sequence[Rates]
    verify: Sequence[StepCost] = ()
    stock: Rates | None = None

    def summary(self) -> dict[str, Any]:
        """For summary.json; rates are tokens a second behind the first token, ratios are against `plain`."""
        return {
            "machine": {"processor": platform.processor() or platform.machine(), "system": platform.system()},
            "stock": None if self.stock is None else _against_stock(self.stock),
            "verify": [asdict(cost) for cost in self.verify],
            "categories": [_category(rates) for rates in self.categories],
            "aims": AIMS,
        }


async def measure_own_engines(
    workshop: Workshop, base: Profile, prompts: Sequence[Prompt], effort: Effort, say: Callable[[str], None]
) -> EngineResult:
    """Step costs first, then all engines up at once, asked in turn: idle ones sleep, and noise meets all alike."""
    small = base.model_copy(update={"kv": base.kv.model_copy(update={"max_tokens": KV_TOKENS})})
    say("cost of verifying: starting an engine")
    async with workshop.serving("widths", width_profile(small)) as url, connected(url, "engine", SERVED_NAME) as client:
        verify = await measure_step_costs(client, requests=effort.width_requests, tokens=effort.width_tokens)
    async with AsyncExitStack() as stack:
        contestants = {}
        for name, algorithm in ((PLAIN, "none"), (NGRAM, "ngram"), (OURS, "specserve")):
            say(f"{name}: starting an engine")
            speculation = Speculation.model_validate({"algorithm": algorithm})
            profile = small.model_copy(update={"speculation": speculation})
            url = await stack.enter_async_context(workshop.serving(name, profile))
            contestants[name] = Contestant(await stack.enter_async_context(connected(url, "engine", SERVED_NAME)))
        say(f"{STOCK}: starting an engine")
        port = free_port()
        command = stock_command(workshop.source(base.target.model).path, port)
        url = await stack.enter_async_context(workshop.running(STOCK, command, port))
        client = await stack.enter_async_context(connected(url, "engine", SERVED_NAME))
        short = [prompt for prompt in prompts if len(prompt.text) <= _SHORT_PROMPT][: effort.stock_prompts]
        pair = {STOCK: Contestant(client), PLAIN: contestants[PLAIN]}
        stock = _together(await measure_rates(pair, short, effort.tokens, say))
        return EngineResult(await measure_rates(contestants, prompts, effort.tokens, say), verify, stock)


async def measure_service(
    url: str, prompts: Sequence[Prompt], effort: Effort, say: Callable[[str], None]
) -> EngineResult:
    """A running service: mode off against mode on, for each prompt in turn."""
    async with connected(url, "gateway") as client:
        contestants = {PLAIN: Contestant(client, "off", cold=False), OURS: Contestant(client, "on", cold=False)}
        return EngineResult(await measure_rates(contestants, prompts, effort.tokens, say))


def _together(categories: Sequence[Rates]) -> Rates:
    timings = {
        name: [timing for rates in categories for timing in rates.timings[name]] for name in categories[0].timings
    }
    return Rates("all", timings)


def _against_stock(rates: Rates) -> dict[str, float | None]:
    return {
        "stock_tokens_per_second": rates.tokens_per_second(STOCK),
        "plain_tokens_per_second": rates.tokens_per_second(PLAIN),
        "ratio": rates.ratio(PLAIN, STOCK),
    }


def _category(rates: Rates) -> dict[str, Any]:
    return {
        "category": rates.category,
        "prompts": len(rates.timings[PLAIN]),
        **{name: rates.tokens_per_second(name) for name in (PLAIN, NGRAM, OURS)},
        "ngram_ratio": rates.ratio(NGRAM, PLAIN),
        "specserve_ratio": rates.ratio(OURS, PLAIN),
        "specserve_ratio_with_prefill": rates.whole_ratio(OURS, PLAIN),
        "acceptance": rates.acceptance(OURS),
    }
