"""The per-token trace that carries what speculation really did from the worker to the HTTP server.

One integer per output token: bit 0 says that it was a draft token; the higher bits are 0 inside a decode step,
and `1 + proposed draft tokens` on the first token of one. SGLang cuts the list together with the text, so drafts
that were accepted behind a stop never count. `None` or 0: the token came from the prefill or from a request that
was told not to speculate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TRACE_KEY = "specserve_trace"


def encode_step(proposed: int, accepted: int) -> list[int]:
    """Trace of one decode step that emits `accepted` draft tokens and the bonus token."""
    codes = [1] * accepted + [0]
    codes[0] |= (proposed + 1) << 1
    return codes


@dataclass(frozen=True, slots=True)
class TraceCounts:
    """What one completion's decode steps proposed and got accepted, in draft tokens."""

    steps: tuple[tuple[int, int], ...]
    """(proposed, accepted) of each decode step, plain steps (0, 0) included."""

    @property
    def verify_steps(self) -> int:
        """Steps that proposed at least one draft token."""
        return sum(proposed > 0 for proposed, _ in self.steps)

    @property
    def proposed(self) -> int:
        """Draft tokens proposed."""
        return sum(proposed for proposed, _ in self.steps)

    @property
    def accepted(self) -> int:
        """Draft tokens accepted and part of the text."""
        return sum(accepted for _, accepted in self.steps)

    def accepted_histogram(self) -> list[int]:
        """Verify steps by accepted draft tokens (dense, from 0)."""
        return histogram(accepted for proposed, accepted in self.steps if proposed > 0)

    def proposed_histogram(self) -> list[int]:
        """Decode steps by proposed draft tokens (dense, from 0)."""
        return histogram(proposed for proposed, _ in self.steps)


def histogram(values: Iterable[int]) -> list[int]:
    """Dense counts from 0 to the largest value; empty for no values."""
    counts: list[int] = []
    for value in values:
        counts.extend([0] * (value + 1 - len(counts)))
        counts[value] += 1
    return counts


def decode_trace(codes: Sequence[int | None]) -> TraceCounts | None:
    """Read a completion's trace back; None when no decode step left one."""
    steps: list[list[int]] = []
    for code in codes:
        if code is None:
            continue
        if code >> 1:
            steps.append([(code >> 1) - 1, 0])
        if code & 1 and steps:
            steps[-1][1] += 1
    return TraceCounts(tuple((proposed, accepted) for proposed, accepted in steps)) if steps else None
