"""From the options of `specserve bench inflation` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.bench.inflation import measure_inflation
from service.bench.models import base_profile, prepared
from service.bench.prompts import Prompt
from service.bench.report import print_table, write_summary
from service.bench.servers import Workshop
from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.config import load_config
from service.profiles.schema import Speculation


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `accept` None takes the pool's own rule."""

    prompts: Sequence[Prompt]
    tokens: int
    out: Path
    accept: str | None
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Measure and report; whether the rule passed the gate. Raises ConfigError when it is strict."""
    config = load_config(config_file)
    base = base_profile(config, pool)
    fields = base.speculation.model_dump() | ({} if options.accept is None else {"accept": options.accept})
    lossy = Speculation.model_validate(fields)
    if lossy.accept == "strict":
        raise ConfigError(["speculation.accept is strict, which changes nothing: name another rule with --accept"])
    store = ModelStore(config.cache_dir)
    prepared(store, base.target.model, options.say)
    workshop = Workshop(store, config.engine, options.out / "logs")
    found = await measure_inflation(workshop, base, lossy, options.prompts, options.tokens, options.say)
    summary = {"accept": lossy.accept, "accept_options": lossy.accept_options, **found}
    options.say(f"written: {write_summary(options.out, summary)}")
    title = f"{lossy.accept} against strict: natural answers of at most {options.tokens} tokens"
    print_table(title, ("figure", "value"), list(summary.items()))
    return bool(summary["passed"])
