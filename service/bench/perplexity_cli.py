"""From the options of `specserve bench perplexity` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from service.bench.perplexity import Span, cache_of, measure_perplexity, perplexity_rows
from service.bench.prompts import Prompt
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.workshop import open_workshop
from service.engine.plan import shape_of
from service.errors import ConfigError
from service.profiles.kv_methods import text_bytes

COLUMNS = ("cache", "tokens", "perplexity", "perplexity_ratio", "bytes_per_token", "bytes_ratio")


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    prompts: Sequence[Prompt]
    caches: tuple[str, ...]
    span: Span
    out: Path
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> None:
    """Measure and report. Raises ConfigError for a target without config.json."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    shape = shape_of(workshop.store, base.target.model)
    if shape is None:
        raise ConfigError([f"target.model: {base.target.model} has no config.json at hand"])
    piece = options.span.piece
    slots = {
        name: text_bytes(cache_of(name, base.kv), shape, base.target.dtype, piece) / piece for name in options.caches
    }
    readings = await measure_perplexity(workshop, base, options.caches, options.prompts, options.span, options.say)
    rows = perplexity_rows(readings, slots)
    summary = {"model": base.target.model, **asdict(options.span), "caches": rows}
    options.say(f"written: {write_summary(options.out, summary)}")
    if missing := plots_missing():
        options.say(missing)
    else:
        series = {"perplexity": [row["perplexity"] for row in rows]}
        plot_bars(
            options.out / "perplexity.png", "Perplexity by KV cache", list(options.caches), series, unit="perplexity"
        )
    print_table("KV caches reading the same text", COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
