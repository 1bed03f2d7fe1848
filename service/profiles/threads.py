"""OpenMP settings of a CPU engine process."""

from __future__ import annotations

SPIN_COUNT = 1000
"""Busy-wait turns of an idle OpenMP thread, about two microseconds, before it sleeps."""


def openmp_env(threads: int | None) -> dict[str, str]:
    """Environment of an engine with `threads` compute threads (None: one a core). Pure; values are strings.

    Measured with `python -m service.bench.cpu_threads`, ratios to an idle machine without settings.
    """
    env = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "OMP_PROC_BIND": "false"}
    if threads is not None:
        env["OMP_NUM_THREADS"] = str(threads)
    return env
