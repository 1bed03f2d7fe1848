"""What speculation did for one choice of one request, in words that no engine owns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Draft tokens of one source, such as a copy from the prompt or a tool's scaffold.

    `per_position[p]` of the accepted ones stood at position p of their verify step, the first at 0.
    """

    source: str
    proposed: int
    accepted: int
    per_position: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeculationRecord:
    """Counts of one choice, or of several merged ones.

    `steps` are verify steps that had at least one draft token; `histogram[k]` is the number of steps that
    accepted exactly k draft tokens. `draft_s` is the time spent on this request's drafts, `verify_s` that of the
    passes in which it took part, other requests' tokens included. Absent figures are None, never 0.
    """

    steps: int
    proposed: int
    accepted: int
    histogram: tuple[int, ...]
    sources: tuple[SourceCounts, ...] | None = None
    draft_s: float | None = None
    verify_s: float | None = None

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
    """Sum of the records; None when there is none. A figure that one record lacks is absent from the sum."""
    known = tuple(records)
    if len(known) < 2:
        return known[0] if known else None
    return SpeculationRecord(
        steps=sum(record.steps for record in known),
        proposed=sum(record.proposed for record in known),
        accepted=sum(record.accepted for record in known),
        histogram=_add(record.histogram for record in known),
        sources=_merge_sources(record.sources for record in known),
        draft_s=_sum(record.draft_s for record in known),
        verify_s=_sum(record.verify_s for record in known),
    )


def _merge_sources(parts: Iterable[tuple[SourceCounts, ...] | None]) -> tuple[SourceCounts, ...] | None:
    by_name: dict[str, list[SourceCounts]] = {}
    for part in parts:
        if part is None:
            return None
        for counts in part:
            by_name.setdefault(counts.source, []).append(counts)
    return tuple(
        SourceCounts(
            name,
            sum(counts.proposed for counts in same),
            sum(counts.accepted for counts in same),
            _add(counts.per_position for counts in same),
        )
        for name, same in sorted(by_name.items())
    )


def _sum(parts: Iterable[float | None]) -> float | None:
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def _add(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip_longest(*rows, fillvalue=0))
