"""`specserve bench inflation`: does a lossy accept rule make answers longer, and is it still faster?

More accepted tokens a step are no gain when the answers get longer by as much ("Acceptance Is Not Speed", methods
note 4.9), so the gate looks at the steps of whole answers with their natural end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from service.bench.client import Client, Completion, connected
from service.bench.prompts import Prompt
from service.bench.servers import SERVED_NAME, Workshop
from service.profiles.schema import Profile, Speculation


@dataclass(frozen=True, slots=True)
class Answer:
    """One natural answer: tokens, decode steps, whether it was cut at the longest length, and its token ids."""

    tokens: int
    steps: int
    cut: bool
    ids: tuple[int, ...]


async def measure_inflation(
    workshop: Workshop,
    base: Profile,
    lossy: Speculation,
    prompts: Sequence[Prompt],
    tokens: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Both rules on the same prompts, greedy, to their natural end; the summary."""
    strict = lossy.model_copy(update={"accept": "strict", "accept_options": {}})
    answers: dict[str, list[Answer]] = {"strict": [], "lossy": []}
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for name, speculation in (("strict", strict), ("lossy", lossy)):
            say(f"{name}: starting an engine")
            profile = base.model_copy(update={"speculation": speculation})
            url = await stack.enter_async_context(workshop.serving(f"inflation-{name}", profile))
            clients[name] = await stack.enter_async_context(connected(url, "engine", SERVED_NAME))
        for number, prompt in enumerate(prompts):
            for name, client in clients.items():
                (found,) = await client.complete(prompt.messages, temperature=0, max_tokens=tokens)
                answers[name].append(_answer(found))
            say(f"{number + 1} of {len(prompts)}")
    return inflation_summary(answers["strict"], answers["lossy"])


def _answer(found: Completion) -> Answer:
    count = len(found.token_ids)
    # The first token is the prefill's; every decode step emits its accepted drafts and one token more.
    return Answer(count, count - 1 - (found.accepted or 0), found.finish == "length", found.token_ids)


def inflation_summary(strict: Sequence[Answer], lossy: Sequence[Answer]) -> dict[str, Any]:
    """Sums of the lossy answers over those of the strict ones.

    `passed`: fewer steps for whole answers, and no more answers cut at the longest length. Texts that differ in
    nothing pass nothing, for then the rule did not act; nor do answers of which half were cut without the rule, for
    then nobody saw how long they would have become.
    """
    steps_strict, steps_lossy = (sum(answer.steps for answer in group) for group in (strict, lossy))
    tokens_strict, tokens_lossy = (sum(answer.tokens for answer in group) for group in (strict, lossy))
    cut_strict, cut_lossy = (sum(answer.cut for answer in group) for group in (strict, lossy))
    changed = sum(a.ids != b.ids for a, b in zip(strict, lossy, strict=True))
    rounds = steps_lossy / steps_strict if steps_strict else None
    per_step = (tokens_lossy / steps_lossy) / (tokens_strict / steps_strict) if steps_strict and steps_lossy else None
    return {
        "prompts": len(strict),
        "changed_texts": changed,
        "inflation": tokens_lossy / tokens_strict if tokens_strict else None,
        "rounds_ratio": rounds,
        "tokens_per_step_ratio": per_step,
        "cut_strict": cut_strict,
        "cut_lossy": cut_lossy,
        "passed": changed > 0
        and rounds is not None
        and rounds < 1
        and cut_lossy <= cut_strict
        and 2 * cut_strict < len(strict),
    }
