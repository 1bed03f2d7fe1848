"""`python -m service.bench.cpu_ops`: cost of one step over 1, 2, 4, ... tokens, operators compared side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from service.bench.cpu_replica import Replica, Shape
from service.bench.report import print_table

Step = Callable[[Tensor], Tensor]


def interleaved_minima(steps: dict[str, Step], tokens: list[int], rounds: int) -> dict[str, dict[int, float]]:
    """Least milliseconds of each step at each number of tokens. Rounds interleave, so noise hits all alike."""
    best = {name: dict.fromkeys(tokens, float("inf")) for name in steps}
    for _ in range(rounds):
        for count in tokens:
            ids = torch.arange(count)
            for name, step in steps.items():
                for _ in range(3 if count <= 16 else 1):
                    start = time.perf_counter()
                    step(ids)
                    best[name][count] = min(best[name][count], (time.perf_counter() - start) * 1e3)
    return best


def summarize(best: dict[str, dict[int, float]], tokens: list[int]) -> dict[str, Any]:
    """Milliseconds, the speed-up of "packed" over the others at one token, and the cost of verifying n tokens."""
    first = tokens[0]
    packed = best["packed float32"]
    return {
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "step_ms": {name: {str(n): round(ms, 3) for n, ms in row.items()} for name, row in best.items()},
        "speedup_of_packed": {name: round(row[first] / packed[first], 3) for name, row in best.items()},
        "verify_cost": {str(n): round(packed[n] / packed[first], 3) for n in tokens},
    }


def main(
    out: Annotated[Path | None, typer.Option(help="also write the figures as JSON to this file")] = None,
    tokens: Annotated[str, typer.Option(help="numbers of tokens of a step")] = "1,2,4,8,12,16,64",
    rounds: Annotated[int, typer.Option(help="rounds; the least time counts")] = 5,
    layers: Annotated[int, typer.Option(help="layers of the replica")] = 30,
    bfloat16: Annotated[bool, typer.Option(help="also time plain bfloat16")] = True,
) -> None:
    """Time a whole decode step of a SmolLM2-shaped model with random weights, without SGLang. Blocks for minutes."""
    torch.set_grad_enabled(False)
    counts = [int(item) for item in tokens.split(",")]
    replica = Replica.random(Shape(layers=layers))
    steps = {"packed float32": replica.packed_step(), "plain float32": replica.plain_step(torch.float32)}
    if bfloat16:
        steps["plain bfloat16"] = replica.plain_step(torch.bfloat16)
    best = interleaved_minima(steps, counts, rounds)
    summary = summarize(best, counts)
    rows: list[list[object]] = [[name, *(row[n] for n in counts)] for name, row in best.items()]
    rows.append(["packed, cost in single steps", *(summary["verify_cost"][str(n)] for n in counts)])
    print_table("ms per step by tokens", ["operators", *map(str, counts)], rows)
    if out is not None:
        out.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
