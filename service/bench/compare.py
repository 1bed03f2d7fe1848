"""Is one greedy completion the same as the reference, and if not, was it a near-tie?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from service.bench.client import Completion

T = TypeVar("T")

EXCUSED_MARGIN = 1e-4
"""Logit margin of the reference's two best tokens below which rounding may choose either."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token that differs. None stands for the end of the text, and for an unknown margin."""

    prompt: str
    position: int
    expected: int | None
    found: int | None
    margin: float | None

    @property
    def excused(self) -> bool:
        """Whether the reference itself was undecided there."""
        return self.margin is not None and self.margin < EXCUSED_MARGIN


def first_difference(prompt: str, reference: Completion, other: Completion) -> Difference | None:
    """None when the token ids are the same."""
    expected, found = reference.token_ids, other.token_ids
    if expected == found:
        return None
    shorter = min(len(expected), len(found))
    position = next((i for i in range(shorter) if expected[i] != found[i]), shorter)
    return Difference(
        prompt,
        position,
        _at(expected, position),
        _at(found, position),
        _at(reference.margins, position) if reference.margins else None,
    )


def _at(values: Sequence[T], position: int) -> T | None:
    return values[position] if position < len(values) else None
