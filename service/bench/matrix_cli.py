"""From the options of `specserve bench matrix` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.bench.matrix import Cell, MatrixRun, matrix_summary
from service.bench.models import own_drafter_options
from service.bench.prompts import Prompt
from service.bench.report import print_table, write_summary
from service.bench.workshop import open_workshop
from service.profiles.config import load_config

COLUMNS = ("drafter", "controllers", "cells", "answers", "identical", "excused", "failed cells", "proposed", "accepted")


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    prompts: Sequence[Prompt]
    tokens: int
    out: Path
    drafters: tuple[str, ...]
    controllers: tuple[tuple[str, ...], ...]
    say: Callable[[str], None]
    shared: bool


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Run and report; whether all is lossless."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    suite = MatrixRun(options.prompts, options.tokens, options.say, options.shared)
    cache = load_config(config_file).cache_dir
    settings = own_drafter_options(options.drafters, workshop.store, base.target.model, cache, options.say)
    cells = await suite.run(workshop, base, options.drafters, options.controllers, settings)
    summary = matrix_summary(cells)
    options.say(f"written: {write_summary(options.out, summary)}")
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.drafter or "own choice", ",".join(cell.controllers)), []).append(cell)
    title = f"Text, JSON schema, tools x greedy, sampled x batch 1, 4: {options.tokens} tokens"
    print_table(title, COLUMNS, [[*names, *_counts(group)] for names, group in groups.items()])
    return bool(summary["passed"])


def _counts(cells: Sequence[Cell]) -> list[object]:
    return [
        len(cells),
        sum(cell.answers for cell in cells),
        sum(cell.identical for cell in cells),
        sum(cell.excused for cell in cells),
        sum(not cell.passed for cell in cells),
        sum(cell.proposed or 0 for cell in cells),
        sum(cell.accepted or 0 for cell in cells),
    ]
