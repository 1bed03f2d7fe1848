"""From the options of `specserve bench acceptance` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

from service.bench.acceptance import NGRAM, PLAIN, Field, acceptance_rows, chosen_arms, measure_acceptance
from service.bench.arms import STEPS
from service.bench.models import own_drafter_options
from service.bench.plots import plot_lines
from service.bench.prompts import Prompt
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.workshop import open_workshop
from service.profiles.config import load_config

COLUMNS = (
    "category",
    "drafter",
    "prompts",
    "tokens_per_step",
    "acceptance_rate",
    "proposed_per_step",
    "speedup",
    "draft_ms_per_step",
)


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    prompts: Sequence[Prompt]
    tokens: int
    out: Path
    field: Field
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> None:
    """Measure and report."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    cache = load_config(config_file).cache_dir
    settings = own_drafter_options(options.field.drafters, workshop.store, base.target.model, cache, options.say)
    field = replace(options.field, options=settings | dict(options.field.options))
    categories = await measure_acceptance(workshop, base, field, options.prompts, options.tokens, options.say)
    rows = acceptance_rows(categories)
    arms = chosen_arms(categories, ["+".join(names) for names in options.field.controllers])
    summary = {"tokens": options.tokens, "draft_tokens": options.field.draft_tokens, "rows": rows, "arms": arms}
    options.say(f"written: {write_summary(options.out, summary)}")
    _plot(options, rows, arms)
    title = f"Acceptance: {options.field.draft_tokens} rows a request and step, {options.tokens} tokens, batch 1"
    print_table(title, COLUMNS, [[row[column] for column in COLUMNS] for row in rows])


def _plot(options: Options, rows: Sequence[dict[str, Any]], arms: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    if missing := plots_missing():
        options.say(missing)
        return
    categories = list(dict.fromkeys(row["category"] for row in rows))
    names = [name for name in dict.fromkeys(row["drafter"] for row in rows) if name != PLAIN]
    found = {(row["category"], row["drafter"]): row for row in rows}
    for key, title, unit in (
        ("tokens_per_step", "Tokens per decode step", "tokens"),
        ("speedup", "Decoding speed against plain", "times"),
    ):
        rates = {name: [found[category, name][key] for category in categories] for name in names}
        # matplotlib draws no bar for what is not a number: what is not known must not look like nothing gained.
        series = {name: [nan if rate is None else rate for rate in row] for name, row in rates.items()}
        plot_bars(options.out / f"{key}.png", title, categories, series, unit=unit)
    positions = {name: _share(rows, name) for name in names}
    plot_lines(
        options.out / "positions.png",
        "Accepted draft tokens by position in the verify step",
        {name: shares for name, shares in positions.items() if shares},
        x="position",
        y="accepted, relative to position 1",
    )
    for name, shares in arms.items():
        if shares:
            steps = [f"{STEPS * place + 1}-{STEPS * (place + 1)}" for place in range(len(next(iter(shares.values()))))]
            path = options.out / f"arms-{name}.png"
            plot_bars(path, f"{name}: chosen by decode step", steps, shares, unit="share of requests", stacked=True)
    for name in names:
        if name != NGRAM:
            _plot_sources(options.out / f"sources-{name}.png", name, categories, found)


def _share(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Over all categories: accepted at each position, relative to the first."""
    columns = [row["accepted_per_position"] for row in rows if row["drafter"] == name]
    width = max((len(column) for column in columns), default=0)
    totals = [sum(column[p] for column in columns if p < len(column)) for p in range(width)]
    return [total / totals[0] for total in totals] if totals and totals[0] else []


def _plot_sources(
    path: Path, name: str, categories: Sequence[str], found: dict[tuple[str, str], dict[str, Any]]
) -> None:
    sources = sorted({source for category in categories for source in found[category, name]["by_source"]})
    if not sources:
        return
    series = {
        source: [
            float(found[category, name]["by_source"].get(source, {}).get("accepted", 0)) for category in categories
        ]
        for source in sources
    }
    plot_bars(path, f"{name}: accepted draft tokens by source", categories, series, unit="tokens", stacked=True)
