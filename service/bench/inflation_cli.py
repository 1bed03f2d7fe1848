"""From the options of `specserve bench inflation` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.bench.inflation import measure_inflation
from service.bench.prompts import Prompt
from service.bench.report import print_table, write_summary
from service.bench.workshop import open_workshop
from service.errors import ConfigError
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
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    fields = base.speculation.model_dump() | ({} if options.accept is None else {"accept": options.accept})
    lossy = Speculation.model_validate(fields)
    if lossy.accept == "strict":
        raise ConfigError(["speculation.accept is strict, which changes nothing: name another rule with --accept"])
    found = await measure_inflation(workshop, base, lossy, options.prompts, options.tokens, options.say)
    summary = {"accept": lossy.accept, "accept_options": lossy.accept_options, **found}
    options.say(f"written: {write_summary(options.out, summary)}")
    title = f"{lossy.accept} against strict: natural answers of at most {options.tokens} tokens"
    print_table(title, ("figure", "value"), list(summary.items()))
    return bool(summary["passed"])
