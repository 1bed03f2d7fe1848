"""Memory trends and samples of processes."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from loadtests.monitor import Monitor, Series, trend


def test_a_leak_is_told_from_noise() -> None:
    random = Random(3)
    flat = [(float(second), 100 + random.gauss(0, 1)) for second in range(600)]
    leak = [(second, value + 0.01 * second) for second, value in flat]
    slope, half = trend(flat) or (0, 0)
    assert abs(slope) < half
    slope, half = trend(leak) or (0, 0)
    assert slope - half > 0
    assert slope == pytest.approx(0.01, rel=0.2)


def test_of_few_samples_nothing_is_told() -> None:
    assert trend([(0.0, 1.0), (1.0, 2.0)]) is None
    assert Series().line(0)["cpu_mean"] is None


def test_the_first_seconds_are_left_out_of_memory() -> None:
    series = Series([float(s) for s in range(100)], [0.5 * s for s in range(100)], [10.0] * 50 + [20.0] * 50)
    line = series.line(50)
    assert line["cpu_mean"] == pytest.approx(50)
    assert (line["rss_first_mb"], line["slope_mb_per_hour"]) == (20, 0)


def test_this_process_is_seen() -> None:
    with Monitor({"own": os.getpid(), "gone": 2**22 + 1}, every_s=0.02) as monitor:
        time.sleep(0.2)
    assert monitor.series["own"].rss_mb[0] > 10
    assert not monitor.series["gone"].at
