"""Estimate of what speculation gains, from the traffic itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SpeedupEstimate:
    """Seconds per token of plain requests over those of drafted ones, both as moving means over requests.

    A rough figure: the two kinds of requests may differ in more than speculation. It is None until both kinds
    were seen `minimum` times, so a pool without plain traffic has no estimate.
    """

    minimum: int = 5
    weight: float = 0.1
    _plain: float = 0.0
    _plain_seen: int = 0
    _drafted: float = 0.0
    _drafted_seen: int = 0

    def add(self, seconds_per_token: float, *, drafted: bool) -> float | None:
        """Take one request's mean seconds per token and give the new estimate."""
        if drafted:
            self._drafted = self._mean(self._drafted, self._drafted_seen, seconds_per_token)
            self._drafted_seen += 1
        else:
            self._plain = self._mean(self._plain, self._plain_seen, seconds_per_token)
            self._plain_seen += 1
        return self.value

    @property
    def value(self) -> float | None:
        """Above 1 when speculation pays; None when it is not known."""
        if min(self._plain_seen, self._drafted_seen) < self.minimum or self._drafted <= 0:
            return None
        return self._plain / self._drafted

    def _mean(self, mean: float, seen: int, value: float) -> float:
        # A plain mean first, then an exponential one: the first request must not weigh for ever.
        return mean + (value - mean) * max(self.weight, 1 / (seen + 1))
