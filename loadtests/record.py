"""What is kept of one request."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["ok", "refused", "failed", "left"]
"""`refused`: a clear 4xx or 503; `left`: the client went away on purpose; `failed`: everything else."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request as its client saw it. Times are seconds; None is what did not happen or was not told.

    `at` is when it was due, since the test began, and `late_s` how much later it was sent. `gaps_s` are the pauses
    between pieces of text (inter-token latency as a reader sees it: one piece may hold several tokens). `first_event_s`
    is the first byte of the stream, `ttft_s` the first text in it.
    """

    at: float
    late_s: float
    kind: str
    tenant: str | None
    request_id: str
    outcome: Outcome
    streamed: bool
    e2e_s: float
    status: int | None = None
    error: str | None = None
    first_event_s: float | None = None
    ttft_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    pool: str | None = None
    slow_reader: bool = False
    steps: int | None = None
    proposed: int | None = None
    accepted: int | None = None

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds per token after the first one of a whole stream, as the gateway counts it.

        A slow reader's own pauses are none of the service's.
        """
        tokens = self.completion_tokens
        if self.slow_reader or self.outcome != "ok" or self.first_event_s is None or tokens is None or tokens < 2:
            return None
        return (self.e2e_s - self.first_event_s) / (tokens - 1)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per verify step, the bonus token included."""
        return 1 + self.accepted / self.steps if self.steps and self.accepted is not None else None

    def meets(self, slo: Slo) -> bool:
        """Whether it is an answer within the limits; a whole answer's first token is its end."""
        first = self.ttft_s if self.streamed else self.e2e_s
        pace = self.tpot_s
        return (
            self.outcome == "ok"
            and (first is None or first <= slo.ttft_s)
            and (pace is None or pace <= slo.tpot_s)
            and (slo.e2e_s is None or self.e2e_s <= slo.e2e_s)
        )

    def line(self) -> dict[str, Any]:
        """As it stands in `requests.jsonl`."""
        return asdict(self) | {"tpot_s": self.tpot_s, "acceptance_length": self.acceptance_length}

    @classmethod
    def from_line(cls, line: dict[str, Any]) -> Record:
        """From `line()`; what is derived is derived again. Raises TypeError for other fields."""
        fields = {name: value for name, value in line.items() if name not in ("tpot_s", "acceptance_length")}
        return cls(**fields | {"gaps_s": tuple(fields["gaps_s"])})


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits of a good answer, seconds: to the first token, per token after it, and in all if not None."""

    ttft_s: float
    tpot_s: float
    e2e_s: float | None = None
