"""From the options of `specserve bench quality` to a run and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from service.bench.prompts import Prompt
from service.bench.quality import SizeOf, Thresholds, quality_summary
from service.bench.quality_tasks import Sizes, make_tasks
from service.bench.report import plot_bars, plots_missing, print_table, write_summary
from service.bench.teacher import teaching
from service.bench.workshop import open_workshop
from service.engine.plan import shape_of
from service.errors import ConfigError
from service.profiles.kv_methods import kv_policy, text_bytes, whole_cache
from service.profiles.schema import Profile


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `kv` are fields of the pool's KV cache to replace."""

    prompts: Sequence[Prompt]
    sizes: Sizes
    thresholds: Thresholds
    out: Path
    kv: dict[str, Any]
    say: Callable[[str], None]


async def run(options: Options, *, pool: str | None, config_file: Path | None) -> bool:
    """Measure and report; whether the gate was passed. Raises ConfigError when the cache holds everything."""
    workshop, base = open_workshop(config_file, pool, options.out, options.say)
    # As the profile's own section is read, so that a bad value is told.
    profile = Profile.model_validate(base.model_dump() | {"kv": base.kv.model_dump() | options.kv})
    policy = kv_policy(profile.kv)
    if policy is None:
        raise ConfigError(
            ["the KV cache is whole: name --eviction, --selector or --quantization, or a method in the profile"]
        )
    plain = profile.model_copy(update={"kv": whole_cache(profile.kv)})
    options.say("whole: starting an engine")
    async with teaching(workshop, "quality-whole", plain) as teacher:
        tasks = await make_tasks(teacher, options.prompts, options.sizes)
        options.say(f"{len(tasks)} tasks")
        whole = await teacher.scores(tasks)
    options.say(f"{policy}: starting an engine")
    async with teaching(workshop, "quality-compressed", profile) as teacher:
        compressed = await teacher.scores(tasks)
    shape = shape_of(workshop.store, profile.target.model)
    if shape is None:
        raise ConfigError([f"target.model: {profile.target.model} has no config.json at hand"])
    dtype = profile.target.dtype
    sizes: tuple[SizeOf, SizeOf] = (
        lambda score: text_bytes(plain.kv, shape, dtype, score.held),
        lambda score: text_bytes(profile.kv, shape, dtype, score.held),
    )
    found = quality_summary(tasks, whole, compressed, sizes, options.thresholds)
    summary = {
        "policy": policy,
        "model": profile.target.model,
        **found,
        "thresholds": asdict(options.thresholds),
        "sizes": asdict(options.sizes),
        "kv": profile.kv.model_dump(mode="json"),
    }
    _report(options, policy, summary)
    return bool(summary["passed"])


def _report(options: Options, policy: str, summary: dict[str, Any]) -> None:
    options.say(f"written: {write_summary(options.out, summary)}")
    rows = summary["recall_by_depth"]
    if (reason := plots_missing()) is not None:
        options.say(reason)
    elif rows:
        labels = [f"depth {row['depth']:.0%}" for row in rows]
        series = {name: [row[name] for row in rows] for name in ("whole", "compressed")}
        plot_bars(options.out / "recall.png", f"{policy}: needle", labels, series, unit="probability of a key's token")
    shown = ("bytes_per_token", "bytes_ratio", "read_share", "perplexity_ratio", "recall_ratio", "agreement")
    print_table(
        f"{policy} against the whole cache",
        ("figure", "value"),
        [(name, summary[name]) for name in (*shown, "multi_turn", "passed")],
    )
