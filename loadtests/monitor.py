"""CPU and memory of processes while a test runs, seen from outside; and whether memory grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil


@dataclass
class Series:
    """Samples of one process tree: seconds, CPU seconds so far, and resident MiB."""

    at: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    def line(self, settle_s: float) -> dict[str, Any]:
        """Figures over the test; the slope leaves out the first `settle_s` seconds. CPU 100 is one core."""
        rates = [
            (b - a) / (t - s) * 100
            for s, t, a, b in zip(self.at, self.at[1:], self.cpu_s, self.cpu_s[1:], strict=False)
            if t > s
        ]
        late = [(at, rss) for at, rss in zip(self.at, self.rss_mb, strict=True) if at >= settle_s]
        slope = trend(late)
        low, high = (None, None) if slope is None else (slope[0] - slope[1], slope[0] + slope[1])
        return {
            "cpu_mean": sum(rates) / len(rates) if rates else None,
            "cpu_most": max(rates, default=None),
            "rss_first_mb": late[0][1] if late else None,
            "rss_last_mb": late[-1][1] if late else None,
            "slope_mb_per_hour": None if slope is None else slope[0] * 3600,
            "slope_low": None if low is None else low * 3600,
            "slope_high": None if high is None else high * 3600,
        }


class Monitor:
    """Samples every `every_s` seconds in a thread; use it as a context."""

    def __init__(self, pids: Mapping[str, int], *, alone: Sequence[str] = (), every_s: float = 1.0) -> None:
        """`pids` by name; those in `alone` are watched without their children."""
        self.series = {name: Series() for name in pids}
        self._pids = dict(pids)
        self._alone = frozenset(alone)
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = time.monotonic()

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            for name, pid in self._pids.items():
                sample = _sample(pid, name not in self._alone)
                if sample is not None:
                    series = self.series[name]
                    series.at.append(time.monotonic() - self._began)
                    series.cpu_s.append(sample[0])
                    series.rss_mb.append(sample[1])


def _sample(pid: int, children: bool) -> tuple[float, float] | None:
    """CPU seconds and MiB of a process, and of its children if asked for; None when it has ended."""
    try:
        own = psutil.Process(pid)
        family = [own, *(own.children(recursive=True) if children else ())]
        cpu = sum(sum(each.cpu_times()[:2]) for each in family)
        return float(cpu), float(sum(each.memory_info().rss for each in family)) / 2**20
    except psutil.NoSuchProcess:
        return None


def trend(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope by least squares and half its 95 % interval, from means of ten equal parts; None of fewer than 20 points.

    Neighbouring samples of memory are no independent observations; means of long parts nearly are. The factor is
    Student's t for 8 degrees of freedom.
    """
    if len(points) < 20:
        return None
    size = len(points) / 10
    parts = [points[int(part * size) : int((part + 1) * size)] for part in range(10)]
    means = [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]
    mean_x = sum(x for x, _ in means) / 10
    mean_y = sum(y for _, y in means) / 10
    spread = sum((x - mean_x) ** 2 for x, _ in means)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in means) / spread
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in means)
    return slope, 2.306 * (rest / 8 / spread) ** 0.5
