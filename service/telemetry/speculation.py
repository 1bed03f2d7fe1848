"""What speculation did for one choice of one request, in words that no engine owns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeculationRecord:
    """Counts of one choice, or of several merged ones.

    `steps` are verify steps that had at least one draft token; `histogram[k]` is the number of steps that
    accepted exactly k draft tokens. Absent figures are None, never 0.
    """

    steps: int
    proposed: int
    accepted: int
    histogram: tuple[int, ...]

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per verify step, the bonus token included; None without steps."""
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over proposed draft tokens; None when nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else None

    def accepted_per_position(self) -> tuple[int, ...]:
        """Draft tokens accepted at each position, first position first.

        A step that accepts k drafts accepts positions 0..k-1, so position p counts the steps with k > p.
        """
        counts = [0] * max(len(self.histogram) - 1, 0)
        above = 0
        for accepted in range(len(self.histogram) - 1, 0, -1):
            above += self.histogram[accepted]
            counts[accepted - 1] = above
        return tuple(counts)


def merge(records: Iterable[SpeculationRecord]) -> SpeculationRecord | None:
    """Sum of the records; None when there is none."""
    known = tuple(records)
    if not known:
        return None
    width = max(len(record.histogram) for record in known)
    histogram = [0] * width
    for record in known:
        for accepted, steps in enumerate(record.histogram):
            histogram[accepted] += steps
    return SpeculationRecord(
        steps=sum(record.steps for record in known),
        proposed=sum(record.proposed for record in known),
        accepted=sum(record.accepted for record in known),
        histogram=tuple(histogram),
    )
