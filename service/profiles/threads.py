"""OpenMP settings of a CPU engine process."""

from __future__ import annotations

SPIN_COUNT = 4000
"""Turns that an idle OpenMP thread busy-waits before it sleeps (libgomp's own default is about a hundred times more).

A step has some two hundred parallel regions a few microseconds apart. Threads that sleep at once pay a wake-up for
each; threads that spin for long hold the core on which the last thread of the region waits to run, and beside one
busy process a step becomes ten times slower. Between these, fewer turns cost speed alone and more cost speed in
company: `python -m service.bench.cpu_threads --sweep` shows both.
"""


def openmp_env(threads: int | None) -> dict[str, str]:
    """Environment of an engine with `threads` compute threads (None: one a core). Pure; values are strings.

    Threads are not pinned to cores: a pinned thread waits for its busy core while another one is free.
    """
    env = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "OMP_PROC_BIND": "false"}
    if threads is not None:
        env["OMP_NUM_THREADS"] = str(threads)
    return env
