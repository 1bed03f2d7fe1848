"""Every drafter and controller against plain decoding, for text, JSON schemas and tools, greedy and sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from service.bench.client import Client, Completion, connected
from service.bench.compare import first_difference
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.profiles.schema import Profile, Speculation

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "temperature 0.8, top-p 0.9": {"temperature": 0.8, "top_p": 0.9},
}
BATCHES = (1, 4)
SEEDED_SHARE = 0.9
"""Least share of sampled answers that must be the same: rounding moves a draw where two candidates all but tie."""
_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "book_table",
        "description": "Book a table in a restaurant.",
        "parameters": {
            "type": "object",
            "properties": {
                "restaurant": {"type": "string"},
                "guests": {"type": "integer"},
                "outside": {"type": "boolean"},
            },
            "required": ["restaurant", "guests"],
        },
    },
}
KINDS: dict[str, dict[str, Any]] = {
    "text": {},
    "json schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": _PERSON}},
    },
    "tools": {"tools": [_TOOL], "tool_choice": "required"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One drafter under one list of controllers in one setting; `proposed` None where nothing was speculated.

    `drafter` is empty where the controllers chose it.
    """

    drafter: str
    controllers: tuple[str, ...]
    kind: str
    sampling: str
    batch: int
    answers: int
    identical: int
    excused: int
    proposed: int | None
    accepted: int | None

    @property
    def passed(self) -> bool:
        """Greedy answers must be the same but for near-ties, nearly all sampled ones."""
        if self.sampling == "greedy":
            return self.identical + self.excused == self.answers
        return self.identical >= SEEDED_SHARE * self.answers


@dataclass
class MatrixRun:
    """Runs engine after engine; the reference of each is its own answers with `mode` off.

    With `shared` the requests of an engine learn from each other, and have mostly seen their answers before.
    """

    prompts: Sequence[Prompt]
    tokens: int
    say: Callable[[str], None]
    shared: bool = False

    async def run(
        self,
        workshop: Workshop,
        base: Profile,
        drafters: Sequence[str],
        controllers: Sequence[tuple[str, ...]],
        options: dict[str, dict[str, Any]],
    ) -> list[Cell]:
        """Under each list of controllers all drafters one by one, and the controllers' own choice among them.

        Where a request names its drafter, the controllers may choose how much it drafts, but not nothing.

        Raises EngineError when an engine fails.
        """
        cells = []
        for names in controllers:
            self.say(f"starting an engine: {', '.join(names)}")
            chosen = {"drafters": tuple(drafters), "controllers": names, "drafter_options": options}
            speculation = Speculation.model_validate(chosen | {"sharing": "pool" if self.shared else "request"})
            profile = base.model_copy(update={"speculation": speculation})
            async with (
                workshop.serving("matrix-" + "-".join(names), profile) as url,
                connected(url, "engine", SERVED_NAME) as client,
            ):
                cells += await self._on_engine(client, names, wished(drafters, names))
        return cells

    async def _on_engine(self, client: Client, controllers: tuple[str, ...], drafters: Sequence[str]) -> list[Cell]:
        cells = []
        for kind, sampling, batch in product(KINDS, SAMPLINGS, BATCHES):
            plain = await self._answers(client, kind, sampling, batch, {"mode": "off"})
            for drafter in drafters:
                # `on` where a drafter is tested: controllers soon stop drafters that do not pay.
                wishes = {"mode": "on", "drafter": drafter} if drafter else {"mode": "auto"}
                drafted = await self._answers(client, kind, sampling, batch, wishes)
                cell = _cell(drafter, controllers, kind, sampling, batch, plain, drafted)
                cells.append(cell)
                verdict = "" if cell.passed else "  <-- DIFFERS"
                self.say(
                    f"{drafter or 'own choice'} under {','.join(controllers)}, {kind}, {sampling}, batch {batch}: "
                    f"{cell.identical} of {cell.answers}{verdict}"
                )
        return cells

    async def _answers(
        self, client: Client, kind: str, sampling: str, batch: int, wishes: dict[str, str]
    ) -> list[Completion]:
        gate = asyncio.Semaphore(batch)

        async def one(seed: int, prompt: Prompt) -> Completion:
            fields: dict[str, Any] = {**KINDS[kind], **SAMPLINGS[sampling]}
            async with gate:
                (answer,) = await client.complete(
                    prompt.messages,
                    margins=sampling == "greedy" and wishes.get("mode") == "off",
                    seed=seed,
                    max_tokens=self.tokens,
                    custom_params={"specserve": wishes},
                    **fields,
                )
            return answer

        return list(await asyncio.gather(*(one(seed, prompt) for seed, prompt in enumerate(self.prompts))))


def wished(drafters: Sequence[str], controllers: Sequence[str]) -> list[str]:
    """The drafters that requests name in turn; "" names none, which tells something only where there is a choice."""
    return [*drafters] if controllers[-1] == "fixed" else ["", *drafters]


def _cell(
    drafter: str,
    controllers: tuple[str, ...],
    kind: str,
    sampling: str,
    batch: int,
    plain: Sequence[Completion],
    drafted: Sequence[Completion],
) -> Cell:
    differing = [(a, b) for a, b in zip(plain, drafted, strict=True) if a.token_ids != b.token_ids]
    found = [first_difference("", a, b) for a, b in differing] if sampling == "greedy" else []
    known = [answer for answer in drafted if answer.proposed is not None]
    return Cell(
        drafter,
        controllers,
        kind,
        sampling,
        batch,
        answers=len(plain),
        identical=len(plain) - len(differing),
        excused=sum(difference is not None and difference.excused for difference in found),
        proposed=sum(a.proposed or 0 for a in known) if known else None,
        accepted=sum(a.accepted or 0 for a in known) if known else None,
    )


def matrix_summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """For summary.json."""
    return {
        "passed": all(cell.passed for cell in cells),
        "cells": [asdict(cell) | {"passed": cell.passed} for cell in cells],
    }
