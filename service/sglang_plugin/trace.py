"""The per-token trace that carries what speculation really did from the worker to the HTTP server.

One value per output token. The first token of a decode step carries `[proposed, draft_us, verify_us, source]`, with
`proposed` as {source: draft tokens}, the times in microseconds (None: not known) and the source of the token itself
(None: it was no draft); where the request asked for `choices`, also the drafter that was chosen. Further accepted
draft tokens carry their source, all other tokens 0. SGLang cuts the list together with the text, so drafts that were
accepted behind a stop never count. Blank (`None` or 0) throughout: the
tokens came from the prefill or from a request that was told not to speculate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.speculation.tree import DraftTree

TRACE_KEY = "specserve_trace"
UNNAMED = "draft"
"""Source of nodes whose drafter names none."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One decode step of one request: draft tokens proposed by source, the sources of the accepted ones in order,
    the seconds that its own drafting took and those of the pass that verified it together with the whole batch."""

    proposed_by: Mapping[str, int]
    accepted_from: tuple[str, ...]
    draft_s: float | None = None
    verify_s: float | None = None
    drafter: str | None = None

    @classmethod
    def of(
        cls, tree: DraftTree, path: Sequence[int], drafter: str | None, draft_s: float, verify_s: float
    ) -> StepTrace:
        """What a verified tree gave; nodes without a source count for their drafter."""
        sources = tree.sources or (drafter or UNNAMED,) * len(tree)
        return cls(Counter(sources), tuple(sources[node] for node in path), draft_s, verify_s, drafter)

    @property
    def proposed(self) -> int:
        """Draft tokens proposed."""
        return sum(self.proposed_by.values())

    @property
    def accepted(self) -> int:
        """Draft tokens accepted and part of the text."""
        return len(self.accepted_from)


def encode_step(step: StepTrace, *, choices: bool = False) -> list[Any]:
    """Trace of one decode step that emits its accepted draft tokens and the bonus token; with `choices` the drafter."""
    times = [None if s is None else round(s * 1e6) for s in (step.draft_s, step.verify_s)]
    first = [dict(step.proposed_by), *times, step.accepted_from[0] if step.accepted_from else None]
    first += [step.drafter] if choices else []
    return [first, *step.accepted_from[1:], 0] if step.accepted_from else [first]


def decode_trace(codes: Sequence[Any]) -> TraceCounts | None:
    """Read a completion's trace back; None when no decode step left one."""
    steps: list[StepTrace] = []
    chosen = False
    for code in codes:
        if isinstance(code, list):
            proposed, draft_us, verify_us, source, *drafter = code
            draft_s, verify_s = [None if us is None else us / 1e6 for us in (draft_us, verify_us)]
            accepted = () if source is None else (source,)
            steps.append(StepTrace(proposed, accepted, draft_s, verify_s, drafter[0] if drafter else None))
            chosen = chosen or bool(drafter)
        elif isinstance(code, str) and steps:
            steps[-1] = replace(steps[-1], accepted_from=(*steps[-1].accepted_from, code))
    return TraceCounts(tuple(steps), chosen) if steps else None


@dataclass(frozen=True, slots=True)
class TraceCounts:
    """What one completion's decode steps proposed and got accepted, in draft tokens; plain steps included.

    `chosen` tells whether the trace names the drafters.
    """

    steps: tuple[StepTrace, ...]
    chosen: bool = False

    @property
    def verify_steps(self) -> int:
        """Steps that proposed at least one draft token."""
        return sum(step.proposed > 0 for step in self.steps)

    @property
    def proposed(self) -> int:
        """Draft tokens proposed."""
        return sum(step.proposed for step in self.steps)

    @property
    def accepted(self) -> int:
        """Draft tokens accepted and part of the text."""
        return sum(step.accepted for step in self.steps)

    def accepted_histogram(self) -> list[int]:
        """Verify steps by accepted draft tokens (dense, from 0)."""
        return histogram(step.accepted for step in self.steps if step.proposed > 0)

    def proposed_histogram(self) -> list[int]:
        """Decode steps by proposed draft tokens (dense, from 0)."""
        return histogram(step.proposed for step in self.steps)

    def sources(self) -> dict[str, dict[str, Any]]:
        """By source: draft tokens proposed, accepted, and accepted at each position (dense, the first from 0)."""
        proposed: Counter[str] = Counter()
        positions: dict[str, list[int]] = {}
        for step in self.steps:
            proposed.update(step.proposed_by)
            for position, source in enumerate(step.accepted_from):
                positions.setdefault(source, []).append(position)
        return {
            source: {
                "proposed": proposed[source],
                "accepted": len(positions.get(source, ())),
                "accepted_per_position": histogram(positions.get(source, ())),
            }
            for source in sorted(proposed)
        }

    def choices(self) -> list[tuple[str | None, int]] | None:
        """Drafter and draft tokens of each decode step; None when the trace does not name drafters."""
        return [(step.drafter, step.proposed) for step in self.steps] if self.chosen else None

    def draft_s(self) -> float | None:
        """Seconds of drafting for this completion; None when they are not known."""
        return _sum(step.draft_s for step in self.steps)

    def verify_s(self) -> float | None:
        """Seconds of the passes that this completion took part in; None when they are not known."""
        return _sum(step.verify_s for step in self.steps)


def _sum(seconds: Iterable[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return sum(known) if known else None


def histogram(values: Iterable[int]) -> list[int]:
    """Dense counts from 0 to the largest value; empty for no values."""
    counts: list[int] = []
    for value in values:
        counts.extend([0] * (value + 1 - len(counts)))
        counts[value] += 1
    return counts
