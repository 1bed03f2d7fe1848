"""One SGLang server as the gateway sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Health = Literal["unknown", "up", "down"]


@dataclass(eq=False, slots=True)
class Backend:
    """A base URL with its health and its open requests.

    The API loop writes it; the operations thread only reads single attributes, so no lock is needed.
    """

    url: str
    health: Health = "unknown"
    reason: str = "not checked yet"
    in_flight: int = 0
    misses: int = 0

    @property
    def usable(self) -> bool:
        """Worth a try: not known to be down. Before the first check a backend is tried."""
        return self.health != "down"

    def mark_up(self) -> None:
        """A health check passed."""
        self.health, self.reason, self.misses = "up", "", 0

    def mark_down(self, reason: str) -> None:
        """It refused a connection or said that it is not ready."""
        self.health, self.reason = "down", reason

    def miss(self, reason: str, *, limit: int = 3) -> None:
        """A health check got no answer in time; a busy engine does that, so only `limit` in a row count."""
        self.misses += 1
        if self.misses >= limit or self.health != "up":
            self.mark_down(reason)
