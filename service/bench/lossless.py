"""`specserve bench lossless`: does every way of decoding give the tokens of plain decoding?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from service.bench.answers import AnswerFiles
from service.bench.client import Client, Completion, connected
from service.bench.compare import Difference, first_difference
from service.bench.prompts import Prompt
from service.bench.sampled import DistributionResult, SeededResult, check_distribution, check_seeded
from service.bench.servers import SERVED_NAME, Workshop
from service.bench.variants import PLAIN, Variant
from service.errors import ConfigError
from service.profiles.schema import Profile

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One variant against the reference."""

    name: str
    prompts: int
    identical: int
    differences: tuple[Difference, ...]
    seconds: float | None
    proposed: int | None
    accepted: int | None

    def summary(self) -> dict[str, Any]:
        """For summary.json; `proposed` and `accepted` are null where nothing was speculated."""
        excused = sum(d.excused for d in self.differences)
        return {
            "name": self.name,
            "identical": self.identical,
            "excused": excused,
            "different": len(self.differences) - excused,
            "seconds": self.seconds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "differences": [asdict(d) | {"excused": d.excused} for d in self.differences],
        }


@dataclass
class LosslessRun:
    """All variants over all prompts. Results gather in the fields while it runs."""

    prompts: Sequence[Prompt]
    tokens: int
    answers: AnswerFiles
    say: Say
    sampled_prompts: int = 30
    sampled_tokens: int = 64
    draws: int = 1024
    results: list[VariantResult] = field(default_factory=list)
    seeded: SeededResult | None = None
    distribution: DistributionResult | None = None

    async def on_own_engines(self, workshop: Workshop, base: Profile, variants: Sequence[Variant]) -> None:
        """Start an engine for each speculation setting, one after the other; equal neighbours share one."""
        for speculation, group in groupby(variants, key=lambda variant: variant.speculation):
            todo = [variant for variant in group if not self._compare_stored(variant)]
            sampled = speculation.algorithm == "specserve" and self.sampled_prompts > 0 and self.seeded is None
            if not todo and not sampled:
                continue
            self.say(f"starting an engine: {speculation.algorithm}")
            profile = base.model_copy(update={"speculation": speculation})
            async with workshop.serving(_slug((todo or list(variants))[0].name), profile) as url:
                async with connected(url, "engine", SERVED_NAME) as client:
                    for variant in todo:
                        await client.flush_cache()
                        await self._run(client, variant)
                    if sampled:
                        await self._run_sampled(client)

    async def on_service(self, url: str, variants: Sequence[Variant]) -> None:
        """Ask a running service; only the mode differs between variants."""
        async with connected(url, "gateway") as client:
            for variant in variants:
                await self._run(client, variant)
            if self.sampled_prompts > 0:
                await self._run_sampled(client)

    async def _run(self, client: Client, variant: Variant) -> None:
        gate = asyncio.Semaphore(variant.concurrency)

        async def one(number: int, prompt: Prompt) -> Completion:
            mode = variant.modes[number % len(variant.modes)]
            async with gate:
                answer = await client.complete(
                    prompt.messages,
                    mode=mode,
                    margins=variant.name == PLAIN,
                    temperature=0,
                    max_tokens=self.tokens,
                )
            return answer[0]

        self.say(f"{variant.name}: {len(self.prompts)} prompts")
        started = time.monotonic()
        done = await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(self.prompts)))
        seconds = time.monotonic() - started
        self.answers.write(variant.name, done, seconds)
        self._compare(variant, done, seconds)

    async def _run_sampled(self, client: Client) -> None:
        self.say("temperature 1: equal seeds, with and without drafts")
        self.seeded = await check_seeded(client, self.prompts[: self.sampled_prompts], self.sampled_tokens)
        self.say("temperature 1: equal distributions, with and without drafts")
        self.distribution = await check_distribution(client, self.draws)

    def _compare_stored(self, variant: Variant) -> bool:
        stored = self.answers.read(variant.name)
        if stored is not None:
            self.say(f"{variant.name}: answers of an earlier run")
            self._compare(variant, *stored)
        return stored is not None

    def _compare(self, variant: Variant, answers: Sequence[Completion], seconds: float | None) -> None:
        if variant.name == PLAIN:
            return
        reference = self.answers.read(PLAIN, always=True)
        if reference is None:
            raise ConfigError([f"there are no answers of {PLAIN!r} to compare {variant.name!r} with; run it first"])
        pairs = zip(self.prompts, reference[0], answers, strict=True)
        found = [first_difference(prompt.id, expected, other) for prompt, expected, other in pairs]
        differences = tuple(difference for difference in found if difference is not None)
        speculated = [answer for answer in answers if answer.proposed is not None]
        result = VariantResult(
            name=variant.name,
            prompts=len(answers),
            identical=len(answers) - len(differences),
            differences=differences,
            seconds=seconds,
            proposed=sum(a.proposed or 0 for a in speculated) if speculated else None,
            accepted=sum(a.accepted or 0 for a in speculated) if speculated else None,
        )
        self.results.append(result)
        self.say(f"{variant.name}: {result.identical} of {result.prompts} identical")

    @property
    def passed(self) -> bool:
        """Whether nothing differs beyond near-ties, and the checks at temperature 1 hold where they ran."""
        unexcused = any(not d.excused for result in self.results for d in result.differences)
        sampled = [check.passed for check in (self.seeded, self.distribution) if check is not None]
        return not unexcused and all(sampled)

    def summary(self) -> dict[str, Any]:
        """For summary.json."""
        return {
            "prompts": len(self.prompts),
            "tokens": self.tokens,
            "variants": [result.summary() for result in self.results],
            "seeded": None if self.seeded is None else asdict(self.seeded) | {"passed": self.seeded.passed},
            "distribution": None
            if self.distribution is None
            else asdict(self.distribution) | {"passed": self.distribution.passed},
            "passed": self.passed,
        }


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)
