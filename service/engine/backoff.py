"""How long to wait before a crashed engine starts again."""

from __future__ import annotations

from dataclasses import dataclass

from service.settings import EngineSettings


@dataclass
class Backoff:
    """Doubling waits; mutates itself with every crash.

    A run that was ready for longer than the longest wait counts as stable and resets the waits.
    """

    settings: EngineSettings
    failed_starts: int = 0
    _crashes: int = 0

    def after_crash(self, ready_s: float | None) -> float | None:
        """Seconds to wait; None: give up. `ready_s` is how long the engine was ready, None for never."""
        if ready_s is None:
            self.failed_starts += 1
            if self.failed_starts > self.settings.max_restarts:
                return None
        else:
            self.failed_starts = 0
            if ready_s > self.settings.restart_backoff_max_s:
                self._crashes = 0
        wait = self.settings.restart_backoff_s * 2.0**self._crashes
        self._crashes = min(self._crashes + 1, 30)
        return min(wait, self.settings.restart_backoff_max_s)
