"""One SGLang server as the gateway sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Health = Literal["unknown", "up", "down"]

_IDLE_MISSES = 3
_BUSY_MISSES = 12


@dataclass(eq=False, slots=True)
class Backend:
    """A base URL with its health and its open requests.

    The API loop writes it; the operations thread only reads single attributes, so no lock is needed.
    """

    url: str
    weight: float = 1.0
    """Its share of the work relative to others of the pool; at 0 it gets nothing new."""
    health: Health = "unknown"
    reason: str = "not checked yet"
    in_flight: int = 0
    misses: int = 0
    away: bool = False
    """Down because nothing accepted a connection: trying it costs nothing and shows when it is back."""

    @property
    def usable(self) -> bool:
        """Worth a try: not known to be down. Before the first check a backend is tried."""
        return self.health != "down"

    def mark_up(self) -> None:
        """A health check passed."""
        self.health, self.reason, self.misses, self.away = "up", "", 0, False

    def mark_down(self, reason: str, *, away: bool = False) -> None:
        """It refused a connection (`away`) or said that it is not ready."""
        self.health, self.reason, self.away = "down", reason, away

    def miss(self, reason: str) -> None:
        """A health check got no answer in time.

        A backend that was up may just be busy, with a long prefill for instance: several misses in a row count,
        and many when it works on requests of ours, which have time limits of their own.
        """
        self.misses += 1
        limit = _BUSY_MISSES if self.in_flight else _IDLE_MISSES
        if self.misses >= limit or self.health != "up":
            self.mark_down(reason)
