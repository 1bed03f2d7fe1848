from __future__ import annotations

from service.engine.backoff import Backoff
from service.settings import EngineSettings

SETTINGS = EngineSettings(restart_backoff_s=1, restart_backoff_max_s=8, max_restarts=6)


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(SETTINGS)
    assert [backoff.after_crash(None) for _ in range(6)] == [1, 2, 4, 8, 8, 8]
    assert backoff.after_crash(None) is None


def test_a_ready_engine_clears_the_count_of_failed_starts() -> None:
    backoff = Backoff(SETTINGS)
    for _ in range(20):
        assert backoff.after_crash(None) is not None
        assert backoff.after_crash(2.0) is not None
    assert backoff.after_crash(2.0) == 8


def test_a_stable_run_resets_the_wait() -> None:
    backoff = Backoff(SETTINGS)
    assert [backoff.after_crash(2.0), backoff.after_crash(2.0), backoff.after_crash(8.5)] == [1, 2, 1]
