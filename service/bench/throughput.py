"""Tokens a second by prompt category, every engine asked in turn for each prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from service.bench.client import Client, Mode, Timing
from service.bench.prompts import Prompt


@dataclass(frozen=True)
class Contestant:
    """One engine and how it is asked. `cold` empties its caches before each prompt; `drafter` picks one of many.

    With `choices` the engine tells each step's drafter and draft tokens.
    """

    client: Client
    mode: Mode | None = None
    cold: bool = True
    drafter: str | None = None
    choices: bool = False


@dataclass
class Rates:
    """Timings of one category: a list for each contestant, all in the order of the prompts."""

    category: str
    timings: dict[str, list[Timing]] = field(default_factory=dict)

    def tokens_per_second(self, name: str) -> float | None:
        """Median decode rate; None without a measured answer of two tokens."""
        rates = [t.decode_rate for t in self.timings.get(name, ()) if t.decode_rate is not None]
        return median(rates) if rates else None

    def ratio(self, name: str, base: str) -> float | None:
        """Median over the prompts of the ratio of decode rates on the same prompt."""
        pairs = zip(self.timings.get(name, ()), self.timings.get(base, ()), strict=False)
        ratios = [a.decode_rate / b.decode_rate for a, b in pairs if a.decode_rate and b.decode_rate]
        return median(ratios) if ratios else None

    def whole_ratio(self, name: str, base: str) -> float | None:
        """As `ratio`, the prefill included: tokens over the seconds to the last token."""
        pairs = zip(self.timings.get(name, ()), self.timings.get(base, ()), strict=False)
        ratios = [(a.tokens / a.last_s) / (b.tokens / b.last_s) for a, b in pairs]
        return median(ratios) if ratios else None

    def acceptance(self, name: str) -> float | None:
        """Accepted of proposed draft tokens; None where none was proposed."""
        proposed = sum(t.proposed or 0 for t in self.timings.get(name, ()))
        return sum(t.accepted or 0 for t in self.timings.get(name, ())) / proposed if proposed else None


async def measure_rates(
    contestants: Mapping[str, Contestant],
    prompts: Sequence[Prompt],
    tokens: int,
    say: Callable[[str], None],
) -> list[Rates]:
    """Answers of at most `tokens` tokens at temperature 0, the order of the contestants turning with each prompt."""
    by_category: dict[str, Rates] = {}
    names = list(contestants)
    for number, prompt in enumerate(prompts):
        rates = by_category.setdefault(prompt.category, Rates(prompt.category))
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            timing = await _ask(contestants[name], prompt, tokens)
            rates.timings.setdefault(name, []).append(timing)
        say(f"{number + 1} of {len(prompts)}: {prompt.category}")
    return list(by_category.values())


async def _ask(contestant: Contestant, prompt: Prompt, tokens: int) -> Timing:
    if contestant.cold:
        await contestant.client.flush_cache()
    return await contestant.client.stream(
        prompt.messages,
        mode=contestant.mode,
        drafter=contestant.drafter,
        choices=contestant.choices,
        temperature=0,
        max_tokens=tokens,
        ignore_eos=not prompt.tools,  # a tool call ends where its grammar ends
        **prompt.params,
    )
