"""Options of a load test, on Locust's own command line and web page."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from loadtests.levels import Name
from loadtests.prompts import FOLDER
from loadtests.record import Slo

Arrivals = Literal["closed", "poisson", "trace"]
Mode = Literal["auto", "on", "off"]
KEYS = "SPECSERVE_LOAD_KEYS"


@dataclass(frozen=True, slots=True)
class Options:
    """What the test does. `keys` are (tenant, API key) pairs, `mix` the share of each kind in an open loop."""

    data: Path
    out: Path
    model: str
    mode: Mode
    pool: str | None
    max_tokens: int
    arrivals: Arrivals
    level: Name
    rate: float
    trace: Path | None
    seed: int
    requests: int | None
    storm_at: float | None
    limit_s: float
    think_s: float
    engine: str | None
    slo: Slo
    keys: tuple[tuple[str, str], ...]
    mix: tuple[tuple[str, float], ...]


KINDS = ("chat", "rag", "summarize", "code", "tools", "agent", "abandon", "slow")
MIX = "chat=4,rag=2,summarize=1,code=2,tools=1,agent=1,abandon=1,slow=1"


def add_options(parser: ArgumentParser) -> None:
    """Add ours to Locust's parser."""
    group = parser.add_argument_group("specserve")
    group.add_argument("--data", type=Path, default=FOLDER, help="folder with prompts.jsonl and tool_calls.jsonl")
    group.add_argument("--out", type=Path, default=Path("bench-out/loadtest"), help="folder for records and tables")
    group.add_argument("--model", default="smollm2-135m-instruct", help="model name that the requests ask for")
    group.add_argument("--speculation", choices=get_args(Mode), default="auto", help="mode that the requests ask for")
    group.add_argument("--pool", help="pool that the requests ask for", default="")
    group.add_argument("--max-tokens", type=int, default=48, help="longest answer, tokens")
    group.add_argument(
        "--arrivals", choices=get_args(Arrivals), default="closed", help="closed loop, or open loop by chance or trace"
    )
    group.add_argument("--level", choices=get_args(Name), default="constant", help="load over time")
    group.add_argument("--rate", type=float, default=2.0, help="open loop: arrivals a second at level 1")
    group.add_argument("--trace", type=Path, help="open loop: the trace to replay (jsonl)")
    group.add_argument("--seed", type=int, default=1, help="of prompts and arrivals")
    group.add_argument("--requests", type=int, help="stop after that many")
    group.add_argument("--storm-at", type=float, help="when half of all clients go away at once, share of the test")
    group.add_argument("--engine", default="", help="URL of the engine, asked for orphans after that")
    group.add_argument("--limit-s", type=float, default=120.0, help="an answer that takes longer has failed, seconds")
    group.add_argument("--think-s", type=float, default=1.0, help="closed loop: mean pause of a user, seconds")
    group.add_argument("--slo-ttft-ms", type=float, default=2000.0, help="goodput: to the first token")
    group.add_argument("--slo-tpot-ms", type=float, default=200.0, help="goodput: per token after it")
    group.add_argument("--mix", default=MIX, help="open loop: shares of the kinds of traffic")


def read_options(parsed: Namespace) -> Options:
    """The checked options; API keys come from the environment variable `SPECSERVE_LOAD_KEYS` (tenant=key,...).

    Raises ValueError with a sentence that names the option.
    """
    if parsed.arrivals == "trace" and parsed.trace is None:
        raise ValueError("--arrivals trace needs --trace FILE")
    if parsed.storm_at is not None and not 0 < parsed.storm_at < 1:
        raise ValueError("--storm-at must be between 0 and 1: a share of the test")
    for name in ("max_tokens", "requests", "limit_s", "slo_ttft_ms", "slo_tpot_ms"):
        value = getattr(parsed, name)
        if value is not None and value <= 0:
            raise ValueError(f"--{name.replace('_', '-')} must be above 0")
    if parsed.rate <= 0:
        raise ValueError("--rate must be above 0")
    return Options(
        data=parsed.data,
        out=parsed.out,
        model=parsed.model,
        mode=cast(Mode, parsed.speculation),
        pool=parsed.pool or None,
        max_tokens=parsed.max_tokens,
        arrivals=cast(Arrivals, parsed.arrivals),
        level=cast(Name, parsed.level),
        rate=parsed.rate,
        trace=parsed.trace,
        seed=parsed.seed,
        requests=parsed.requests,
        storm_at=parsed.storm_at,
        limit_s=parsed.limit_s,
        think_s=max(parsed.think_s, 1e-6),
        engine=parsed.engine or None,
        slo=Slo(parsed.slo_ttft_ms / 1e3, parsed.slo_tpot_ms / 1e3),
        keys=_pairs(KEYS, os.environ.get(KEYS, "")),
        mix=_mix(parsed.mix),
    )


def _mix(text: str) -> tuple[tuple[str, float], ...]:
    try:
        mix = tuple((kind, float(share)) for kind, share in _pairs("--mix", text))
    except ValueError:
        raise ValueError(f"--mix must look like {MIX}") from None
    unknown = [kind for kind, _ in mix if kind not in KINDS]
    if unknown or not mix or any(share < 0 for _, share in mix) or not any(share for _, share in mix):
        raise ValueError(f"--mix: positive shares of {', '.join(KINDS)}; not {text!r}")
    return mix


def _pairs(name: str, text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not (key.strip() and sign and value.strip()) for key, sign, value in pairs):
        raise ValueError(f"{name} must look like name=value,name=value")
    return tuple((key.strip(), value.strip()) for key, _, value in pairs)
