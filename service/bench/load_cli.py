"""From the options of `specserve bench load` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.bench.load import FLOOR, PLAIN, load_rows, measure_load
from service.bench.plots import plot_lines
from service.bench.prompts import Prompt
from service.bench.report import plots_missing, print_table, write_summary
from service.bench.workshop import open_workshop
from service.profiles.schema import Speculation

COLUMNS = ("concurrency", "contestant", "tokens_per_second", "speedup", "early_speedup", "proposed", "accepted")


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `controllers` are compared with the pool's own speculation and plain."""

    prompts: Sequence[Prompt]
    steps: tuple[int, ...]
    tokens: int
    rounds: int
    repeats: int
    out: Path
    drafters: tuple[str, ...]
    controllers: tuple[tuple[str, ...], ...]
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Measure and report; whether the controllers kept every phase at the floor or above."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    contestants = {PLAIN: Speculation(algorithm="none")}
    for names in options.controllers:
        contestants["+".join(names)] = Speculation(drafters=options.drafters, controllers=names)
    phases = await measure_load(
        workshop,
        base,
        contestants,
        options.prompts,
        options.steps,
        options.tokens,
        options.rounds,
        options.repeats,
        options.say,
    )
    rows = load_rows(phases)
    options.say(f"written: {write_summary(options.out, {'floor': FLOOR, 'phases': rows})}")
    if missing := plots_missing():
        options.say(missing)
    else:
        drafted = [name for name in contestants if name != PLAIN]
        series = {name: [row["speedup"] for row in rows if row["contestant"] == name] for name in drafted}
        title = f"Throughput against plain, concurrency {', '.join(map(str, options.steps))}"
        plot_lines(options.out / "load.png", title, series, x="phase", y="times plain")
    print_table("Load steps", COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    return all(row["speedup"] is None or row["speedup"] >= FLOOR for row in rows)
