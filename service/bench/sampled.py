"""Checks at temperature 1: drafts must not change what is drawn, nor how often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.bench.client import Client, Completion, Mode
from service.bench.permutation import same_distribution
from service.bench.prompts import Prompt

REJECTED_BELOW = 0.001
CHOICES = 16
TOP_K = 4
DRAWN_TOKENS = 4
# Lines that begin alike: what comes next is uncertain, yet prompt lookup always finds something to propose.
COPYING = (
    "Write the next line of this list.\nred apple\nred ball\nblue apple\nred apple\nblue ball\nred apple\n"
    "blue apple\nred ball\nred apple\nblue ball"
)


@dataclass(frozen=True, slots=True)
class SeededResult:
    """Requests with a seed, once with drafts and once without."""

    prompts: int
    identical: int
    proposed: int
    accepted: int

    @property
    def passed(self) -> bool:
        """Whether every text was the same, drafts having been proposed."""
        return self.identical == self.prompts and self.proposed > 0


@dataclass(frozen=True, slots=True)
class DistributionResult:
    """Joint distribution of the first tokens on one prompt, with drafts and without, seeds all different."""

    draws: int
    cells: int
    p_value: float
    proposed: int
    accepted: int

    @property
    def passed(self) -> bool:
        """Whether equality stands, drafts having been both accepted and rejected."""
        return self.p_value >= REJECTED_BELOW and 0 < self.accepted < self.proposed


async def check_seeded(client: Client, prompts: Sequence[Prompt], tokens: int) -> SeededResult:
    """The same seed must give the same tokens with drafts and without."""
    identical = proposed = accepted = 0
    for seed, prompt in enumerate(prompts):
        drafted, plain = [
            (await client.complete(prompt.messages, mode=mode, temperature=1.0, seed=seed, max_tokens=tokens))[0]
            for mode in _MODES
        ]
        identical += drafted.token_ids == plain.token_ids
        proposed += drafted.proposed or 0
        accepted += drafted.accepted or 0
    return SeededResult(len(prompts), identical, proposed, accepted)


async def check_distribution(client: Client, draws: int) -> DistributionResult:
    """`draws` unseeded samples each way, `CHOICES` a request, compared by a permutation chi-square test."""
    drafted = await _draw(client, "on", draws)
    plain = await _draw(client, "off", draws)
    on, off = (
        [c.token_ids for group in drafted for c in group],
        [c.token_ids for group in plain for c in group],
    )
    p_value = await asyncio.to_thread(same_distribution, on, off)
    return DistributionResult(
        draws=len(on),
        cells=len({*on, *off}),
        p_value=p_value,
        proposed=sum(group[0].proposed or 0 for group in drafted),
        accepted=sum(group[0].accepted or 0 for group in drafted),
    )


async def _draw(client: Client, mode: Mode, draws: int) -> list[list[Completion]]:
    message = [{"role": "user", "content": COPYING}]
    params: dict[str, Any] = {"temperature": 1.0, "top_k": TOP_K, "max_tokens": DRAWN_TOKENS, "n": CHOICES}
    return [await client.complete(message, mode=mode, **params) for _ in range(-(-draws // CHOICES))]


_MODES: tuple[Mode, Mode] = ("on", "off")
