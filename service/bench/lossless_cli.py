"""From the options of `specserve bench lossless` to a run and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.bench.answers import AnswerFiles
from service.bench.lossless import LosslessRun, Say
from service.bench.models import base_profile, prepared, truncated_draft
from service.bench.prompts import Prompt
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.servers import Workshop
from service.bench.variants import Variant, lossless_variants, url_variants
from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.config import load_config

COLUMNS = ("variant", "identical", "excused", "different", "proposed", "accepted", "seconds")


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    prompts: Sequence[Prompt]
    tokens: int
    out: Path
    wanted: tuple[str, ...]
    sampled: bool
    resume: bool
    say: Say


async def run(options: Options, *, url: str | None, pool: str | None, config_file: Path | None) -> bool:
    """Run and report; whether all is lossless. Raises ConfigError for impossible options."""
    answers = AnswerFiles(options.out / "answers", options.prompts, options.tokens, options.resume)
    suite = LosslessRun(options.prompts, options.tokens, answers, options.say)
    if not options.sampled:
        suite.sampled_prompts = 0
    if url is not None:
        await suite.on_service(url, _wanted(url_variants(), options.wanted))
    else:
        settings = load_config(config_file)
        base = base_profile(settings, pool)
        store = ModelStore(settings.cache_dir)
        target = prepared(store, base.target.model, options.say)
        variants = lossless_variants(str(target), str(truncated_draft(target, settings.cache_dir)))
        workshop = Workshop(store, settings.engine, options.out / "logs")
        await suite.on_own_engines(workshop, base, _wanted(variants, options.wanted))
    _report(options, suite.summary())
    return suite.passed


def _wanted(variants: Sequence[Variant], parts: tuple[str, ...]) -> list[Variant]:
    chosen = [variant for variant in variants if not parts or any(part in variant.name for part in parts)]
    if not chosen:
        names = "; ".join(variant.name for variant in variants)
        raise ConfigError([f"--variant: no variant is called like that; they are: {names}"])
    return chosen


def _report(options: Options, summary: dict[str, Any]) -> None:
    variants = summary["variants"]
    path = write_summary(options.out, summary)
    if missing := plots_missing():
        options.say(missing)
    elif variants:
        parts = {part: [float(v[part]) for v in variants] for part in ("identical", "excused", "different")}
        names = [v["name"] for v in variants]
        plot_bars(
            options.out / "lossless.png",
            "Same tokens as plain decoding",
            names,
            parts,
            unit="prompts",
            stacked=True,
        )
    options.say(f"written: {path}")
    for variant in variants:
        for found in variant["differences"]:
            options.say(
                f"{variant['name']}: {found['prompt']} differs at token {found['position']}, margin {found['margin']}"
                + (" (excused)" if found["excused"] else "")
            )
    rows = [[v[column if column != "variant" else "name"] for column in COLUMNS] for v in variants]
    title = f"Lossless: {summary['prompts']} prompts x {summary['tokens']} tokens, temperature 0"
    print_table(title, COLUMNS, rows + _sampled_rows(summary))


def _sampled_rows(summary: dict[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = []
    if seeded := summary["seeded"]:
        differing = seeded["prompts"] - seeded["identical"]
        rows.append(
            [
                "temperature 1, same seed",
                seeded["identical"],
                0,
                differing,
                seeded["proposed"],
                seeded["accepted"],
                None,
            ]
        )
    if drawn := summary["distribution"]:
        verdict = "equal" if drawn["passed"] else "REJECTED"
        name = f"temperature 1, {drawn['draws']} draws, {drawn['cells']} cells: p = {drawn['p_value']:.3f}"
        rows.append([name, verdict, None, None, drawn["proposed"], drawn["accepted"], None])
    return rows
