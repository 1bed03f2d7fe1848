"""`python -m service.bench.cpu_threads`: OpenMP settings on an idle machine and beside one busy process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from service.bench.report import print_table
from service.profiles.threads import openmp_env

SETTINGS: dict[str, dict[str, str]] = {
    "no settings": {},
    "recommended": openmp_env(None),
    "sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
    "spin always": {"OMP_WAIT_POLICY": "ACTIVE"},
    "pinned": {"OMP_PROC_BIND": "true"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
SWEEP = (300, 1000, 3000, 10_000, 30_000, 100_000)
BUSY_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of a decode step. `idle_ms` is the least median of the rounds, as noise only adds; the others are
    medians of the rounds."""

    name: str
    idle_ms: float
    busy_ms: float
    busy_p90_ms: float


@contextmanager
def busy_process() -> Iterator[None]:
    """One process that computes without a pause, ended on leaving and in any case after BUSY_LIMIT_S."""
    code = f"import time\nend = time.time() + {BUSY_LIMIT_S}\nwhile time.time() < end: pass"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def worker(seconds: float, tokens: int) -> None:
    """Run steps for `seconds` and write a JSON list of milliseconds to standard output."""
    import torch

    from service.bench.cpu_replica import Replica, Shape

    torch.set_grad_enabled(False)
    step, ids, times = Replica.random(Shape()).packed_step(), torch.arange(tokens), []
    step(ids)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step(ids)
        times.append((time.perf_counter() - start) * 1e3)
    sys.stdout.write(json.dumps(times))


def measure(env: dict[str, str], seconds: float, tokens: int) -> list[float]:
    """Times of a fresh process with these settings, sorted. The caller's own OpenMP variables are removed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, "-m", "service.bench.cpu_threads", "--worker", str(seconds), "--tokens", str(tokens)]
    done = subprocess.run(command, env=clean | env, stdout=subprocess.PIPE, check=True, timeout=300)
    return sorted(json.loads(done.stdout))


def compare(settings: dict[str, dict[str, str]], rounds: int, seconds: float, tokens: int) -> list[Timing]:
    """Every setting alone and beside a busy process, in interleaved rounds. Blocks."""
    idle: dict[str, list[float]] = {name: [] for name in settings}
    busy: dict[str, list[float]] = {name: [] for name in settings}
    tail: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(rounds):
        for name, env in settings.items():
            idle[name].append(statistics.median(measure(env, seconds, tokens)))
            with busy_process():
                times = measure(env, seconds, tokens)
            busy[name].append(statistics.median(times))
            tail[name].append(times[int(len(times) * 0.9)])
    middle = statistics.median
    return [Timing(name, min(idle[name]), middle(busy[name]), middle(tail[name])) for name in settings]


def main(
    out: Annotated[Path | None, typer.Option(help="also write the figures as JSON to this file")] = None,
    rounds: Annotated[int, typer.Option(help="interleaved rounds; medians are reported")] = 3,
    seconds: Annotated[float, typer.Option(help="length of one run")] = 3.0,
    tokens: Annotated[int, typer.Option(help="tokens of a step")] = 1,
    sweep: Annotated[bool, typer.Option(help="compare spin counts instead of settings")] = False,
    worker_s: Annotated[float | None, typer.Option("--worker", hidden=True)] = None,
) -> None:
    """Time decode steps of a SmolLM2-shaped replica under several OpenMP settings. Blocks for some minutes."""
    if worker_s is not None:
        worker(worker_s, tokens)
        return
    settings = {f"spin {n}": {"GOMP_SPINCOUNT": str(n)} for n in SWEEP} if sweep else SETTINGS
    timings = compare(settings, rounds, seconds, tokens)
    rows = [[t.name, t.idle_ms, t.busy_ms, t.busy_p90_ms, t.busy_ms / t.idle_ms] for t in timings]
    print_table("ms per step", ["setting", "idle", "one busy process", "busy, p90", "busy : idle"], rows)
    if out is not None:
        out.write_text(json.dumps([asdict(t) for t in timings], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
