"""Waiting for something that another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 3.0) -> float:
    """Seconds until the condition held; fails when it does not within `seconds`."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "the condition did not come true"
        time.sleep(0.01)
    return time.monotonic() - start
