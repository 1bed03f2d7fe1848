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
SWEEP = (300, 1000, 2000, 3000, 10_000, 100_000)
BUSY_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of a decode step. `idle_ms` is the least of all turns, as noise only adds to it; the busy ones are
    the median and the 90th percentile of all steps."""

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


def worker(tokens: int) -> None:
    """Answer each line of standard input, a number of steps, with a JSON list of their milliseconds."""
    import torch

    from service.bench.cpu_replica import Replica, Shape

    torch.set_grad_enabled(False)
    step, ids = Replica.random(Shape()).packed_step(), torch.arange(tokens)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step(ids)
            times.append((time.perf_counter() - start) * 1e3)
        sys.stdout.write(json.dumps(times) + "\n")
        sys.stdout.flush()


class Worker:
    """A process with its own OpenMP settings that sleeps between turns."""

    def __init__(self, env: dict[str, str], tokens: int) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
        command = [sys.executable, "-m", "service.bench.cpu_threads", "--worker", "--tokens", str(tokens)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=clean | env, stdin=pipe, stdout=pipe, text=True)

    def turn(self, steps: int) -> list[float]:
        """Milliseconds of `steps` steps. Blocks. Raises RuntimeError when the process has ended."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a benchmark worker ended early")
        times: list[float] = json.loads(line)
        return times

    def stop(self) -> None:
        """End the process. Blocks until it is gone."""
        self.process.kill()
        self.process.wait()


def compare(settings: dict[str, dict[str, str]], rounds: int, steps: int, tokens: int) -> list[Timing]:
    """Every setting alone and beside a busy process, in interleaved turns of `steps` steps. Blocks."""
    workers = {name: Worker(env, tokens) for name, env in settings.items()}
    idle: dict[str, list[float]] = {name: [] for name in settings}
    busy: dict[str, list[float]] = {name: [] for name in settings}
    try:
        for member in workers.values():
            member.turn(3)
        for _ in range(rounds):
            for name, member in workers.items():
                idle[name].append(statistics.median(member.turn(steps)))
        with busy_process():
            end = time.monotonic() + 0.8 * BUSY_LIMIT_S
            for _ in range(rounds):
                for name, member in workers.items():
                    if time.monotonic() < end or not busy[name]:
                        busy[name] += member.turn(steps)
    finally:
        for member in workers.values():
            member.stop()
    return [
        Timing(n, min(idle[n]), statistics.median(busy[n]), sorted(busy[n])[int(len(busy[n]) * 0.9)]) for n in settings
    ]


def main(
    out: Annotated[Path | None, typer.Option(help="also write the figures as JSON to this file")] = None,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 20,
    steps: Annotated[int, typer.Option(help="steps of one turn")] = 10,
    tokens: Annotated[int, typer.Option(help="tokens of a step")] = 1,
    sweep: Annotated[bool, typer.Option(help="compare spin counts instead of settings")] = False,
    as_worker: Annotated[bool, typer.Option("--worker", hidden=True)] = False,
) -> None:
    """Time decode steps of a SmolLM2-shaped replica under several OpenMP settings. Blocks for some minutes."""
    if as_worker:
        worker(tokens)
        return
    settings = {f"spin {n}": {"GOMP_SPINCOUNT": str(n)} for n in SWEEP} if sweep else SETTINGS
    timings = compare(settings, rounds, steps, tokens)
    rows = [[t.name, t.idle_ms, t.busy_ms, t.busy_p90_ms, t.busy_ms / t.idle_ms] for t in timings]
    print_table("ms per step", ["setting", "idle", "one busy process", "busy, p90", "busy : idle"], rows)
    if out is not None:
        out.write_text(json.dumps([asdict(t) for t in timings], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
