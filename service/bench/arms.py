"""Which drafter and how many draft tokens were chosen while texts grew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STEPS = 8
"""Decode steps of one place in the plot."""
_SIZES = ((1, 3), (4, 7), (8, None))


def arm_of(drafter: str | None, proposed: int) -> str:
    """How a plot names one step's choice: nothing drafted, or the drafter and about how many draft tokens."""
    if proposed == 0:
        return "plain"
    low, high = next((low, high) for low, high in _SIZES if high is None or proposed <= high)
    return f"{drafter or 'draft'} {low}+" if high is None else f"{drafter or 'draft'} {low}-{high}"


def arms_over_time(details: Iterable[Mapping[str, Any] | None]) -> dict[str, list[float]]:
    """Shares of the arms by the age of the request: one value for each `STEPS` decode steps, all arms summing to 1.

    `details` are the engine's accounts of requests that asked for `choices`; others, and None, tell nothing.
    """
    counts: list[Counter[str]] = []
    for found in details:
        choices: Sequence[tuple[str | None, int]] = ((found or {}).get("specserve") or {}).get("choices") or ()
        for step, (drafter, proposed) in enumerate(choices):
            if step // STEPS == len(counts):
                counts.append(Counter())
            counts[step // STEPS][arm_of(drafter, proposed)] += 1
    arms = sorted({arm for count in counts for arm in count}, key=lambda arm: (arm != "plain", arm))
    return {arm: [count[arm] / count.total() for count in counts] for arm in arms}
