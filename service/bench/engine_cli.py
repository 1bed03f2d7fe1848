"""From the options of `specserve bench engine` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.bench.engine import AIMS, NGRAM, OURS, PLAIN, QUICK, Effort, measure_own_engines, measure_service
from service.bench.prompts import Prompt, load_prompts, of_each_category
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.workshop import open_workshop

MEASURED = ("qa", "translation", "summarization", "math_reasoning", "rag", "code_completion", "writing")
QUICK_MEASURED = ("rag", "code_completion")


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `limit` counts prompts a category."""

    prompts: Path
    limit: int
    out: Path
    quick: bool
    say: Callable[[str], None]

    def chosen(self) -> list[Prompt]:
        """The first `limit` prompts of each measured category, categories in turn."""
        categories = QUICK_MEASURED if self.quick else MEASURED
        return of_each_category(load_prompts(self.prompts, categories=categories), self.limit)


async def run(options: Options, *, url: str | None, pool: str | None, config_file: Path | None) -> None:
    """Measure and report."""
    prompts, effort = options.chosen(), QUICK if options.quick else Effort()
    if url is not None:
        result = await measure_service(url, prompts, effort, options.say)
    else:
        workshop, base = open_workshop(config_file, pool, options.out, options.say)
        result = await measure_own_engines(workshop, base, prompts, effort, options.say)
    summary = result.summary()
    options.say(f"written: {write_summary(options.out, summary)}")
    _plot(options, summary)
    _print(summary)


def _plot(options: Options, summary: dict[str, Any]) -> None:
    if missing := plots_missing():
        options.say(missing)
        return
    categories = summary["categories"]
    series = {name: [row[name] or 0.0 for row in categories] for name in (PLAIN, NGRAM, OURS)}
    labels = [row["category"] for row in categories]
    plot_bars(options.out / "throughput.png", "Decoding by category", labels, series, unit="tokens/s")
    if verify := summary["verify"]:
        labels = [f"{cost['tokens']} tokens" for cost in verify]
        costs = {"median": [cost["ms"] for cost in verify]}
        plot_bars(options.out / "verify.png", "One verify pass", labels, costs, unit="ms")


def _print(summary: dict[str, Any]) -> None:
    rows: list[list[object]] = []
    if stock := summary["stock"]:
        rates = f"{_rate(stock['plain_tokens_per_second'])} : {_rate(stock['stock_tokens_per_second'])} tok/s"
        rows.append(["plain decode : unmodified SGLang, bfloat16", rates, stock["ratio"], f">= {AIMS['stock']}"])
    for cost in summary["verify"]:
        aim = f"<= {AIMS['verify_8']}" if cost["tokens"] == 8 else None
        rows.append([f"verify {cost['tokens']} tokens : 1 token", f"{cost['ms']:.1f} ms", cost["ratio"], aim])
    for row in summary["categories"]:
        if row[NGRAM] is not None:
            rates = f"{_rate(row[NGRAM])} : {_rate(row[PLAIN])} tok/s"
            rows.append([f"{row['category']}: NGRAM cold : plain", rates, row["ngram_ratio"], None])
        aim = f">= {AIMS[row['category']]}" if row["category"] in AIMS else None
        rates = f"{_rate(row[OURS])} : {_rate(row[PLAIN])} tok/s"
        rows.append([f"{row['category']}: SPECSERVE : plain", rates, row["specserve_ratio"], aim])
    print_table("Engine: medians, decode only", ("what", "measured", "ratio", "aim"), rows)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
