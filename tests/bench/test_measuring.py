"""Step costs and rates, from answers whose times are known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from service.bench import step_cost
from service.bench.client import Timing
from service.bench.prompts import Prompt
from service.bench.step_cost import measure_step_costs
from service.bench.throughput import Contestant, Rates, measure_rates
from service.bench.widths import VERIFIED
from service.errors import EngineError

SECONDS = dict(zip(VERIFIED, (0.010, 0.012, 0.014, 0.018, 0.022), strict=True))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


class ScriptedClient:
    """Streams one token a step, each step as long as its width says; a hiccup now and then."""

    def __init__(self, clock: Clock, accepted: int = 0) -> None:
        self.clock, self.accepted = clock, accepted

    async def events(self, path: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for count in range(1, body["sampling_params"]["max_new_tokens"] + 1):
            if count > 1:
                self.clock.now += SECONDS[VERIFIED[(count - 2) % len(VERIFIED)]] + (0.5 if count % 17 == 0 else 0)
            yield {"meta_info": {"completion_tokens": count, "spec_num_correct_drafts": self.accepted}}


async def test_costs_by_width(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(step_cost, "time", clock)
    costs = await measure_step_costs(ScriptedClient(clock), requests=2, tokens=120)  # type: ignore[arg-type]
    assert [cost.tokens for cost in costs] == list(VERIFIED)
    assert [cost.ms for cost in costs] == pytest.approx([1000 * SECONDS[width] for width in VERIFIED])
    assert [cost.ratio for cost in costs] == pytest.approx([1, 1.2, 1.4, 1.8, 2.2])
    assert all(cost.steps > 30 for cost in costs)


async def test_an_accepted_draft_spoils_the_costs() -> None:
    client = ScriptedClient(Clock(), accepted=1)
    with pytest.raises(EngineError, match="accepted"):
        await measure_step_costs(client, requests=1, tokens=120)  # type: ignore[arg-type]


def timing(rate: float, proposed: int | None = None, accepted: int | None = None) -> Timing:
    return Timing(1.0, 1.0 + 10 / rate, 11, proposed, accepted)


def test_rates_and_ratios() -> None:
    rates = Rates(
        "rag", {"a": [timing(10), timing(20), timing(60)], "b": [timing(20, 9, 6), timing(30, 1, 0), timing(30)]}
    )
    assert rates.tokens_per_second("a") == pytest.approx(20)
    assert rates.ratio("b", "a") == pytest.approx(1.5)
    assert rates.acceptance("b") == pytest.approx(0.6)
    assert rates.acceptance("a") is None
    assert rates.tokens_per_second("c") is None and rates.ratio("c", "a") is None


async def test_contestants_take_turns_and_start_cold() -> None:
    log: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        async def flush_cache(self) -> None:
            log.append(f"flush {self.name}")

        async def stream(self, messages: object, **fields: object) -> Timing:
            log.append(self.name)
            return timing(10)

    contestants: dict[str, Contestant] = {"a": Contestant(Fake("a")), "b": Contestant(Fake("b"), cold=False)}  # type: ignore[arg-type]
    prompts = [Prompt("1", "x", "t"), Prompt("2", "y", "t")]
    found = await measure_rates(contestants, prompts, 8, lambda _line: None)
    assert log == ["flush a", "a", "b", "b", "flush a", "a"]
    assert [rates.category for rates in found] == ["x", "y"]
