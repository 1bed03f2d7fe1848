"""`specserve bench ...`: measure and prove; each writes summary.json, plots and logs, and ends with a table."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from service.bench.models import MODEL_DRAFTERS
from service.bench.prompts import DEFAULT_PROMPTS, load_prompts

app = typer.Typer(no_args_is_help=True)

Url = Annotated[str | None, typer.Option(help="ask this running service; none: start own engines", show_default=False)]
Pool = Annotated[
    str | None,
    typer.Option(help="pool whose target, KV cache and runtime own engines get; none: the first", show_default=False),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="SPECSERVE_CONFIG", help="YAML file of settings", show_default=False),
]
Prompts = Annotated[Path, typer.Option(help="jsonl file of prompts", show_default="../shared/data/prompts.jsonl")]


MODEL_FREE = (
    "prompt_lookup",
    "suffix",
    "ngram_corpus",
    "agent_blocks",
    "adjacency",
    "goose",
    "graft",
    "toolspec",
)
"""The drafters that need no draft model: what is compared by default."""
DEFAULT_DRAFTERS = ("goose",)
DEFAULT_CONTROLLERS = ("fixed", "roofline,dcut,fixed")
DEFAULT_CONTEXTS = (512, 2048, 6000)
DEFAULT_SOAKED = ("dapq", "h2o")
TURNS = ("none", "hadamard")
"""Rotations whose perplexity is measured by default."""
CONTROLLER_LISTS = ("fixed", "ucb", "exp3", "hedge", "roofline,dcut,hedge")


@app.callback()
def bench() -> None:
    """Measure a running service or a pool."""


@app.command()
def lossless(
    url: Url = None,
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts, taken from all categories in turn")] = 100,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/lossless"),
    tokens: Annotated[int, typer.Option(min=1, help="longest answer, tokens")] = 128,
    variant: Annotated[list[str] | None, typer.Option(help="only variants whose name holds this")] = None,
    sampled: Annotated[bool, typer.Option(help="also the checks at temperature 1")] = True,
    resume: Annotated[bool, typer.Option(help="believe the answers that an earlier run left in --out")] = False,
) -> None:
    """Compare every way of decoding with plain decoding, token by token; exit status 1 when one differs."""
    from service.bench import lossless_cli

    chosen = load_prompts(prompts, limit)
    options = lossless_cli.Options(chosen, tokens, out, tuple(variant or ()), sampled, resume, _say)
    if not asyncio.run(lossless_cli.run(options, url=url, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def engine(
    url: Url = None,
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts of each category")] = 4,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/engine"),
    quick: Annotated[bool, typer.Option("--quick", help="two categories, short answers")] = False,
) -> None:
    """Speed side by side: our plain decode : unmodified SGLang, cost of verify passes, drafts by category."""
    from service.bench import engine_cli

    options = engine_cli.Options(prompts, limit, out, quick, _say)
    asyncio.run(engine_cli.run(options, url=url, pool=pool, config_file=config_file))


@app.command()
def acceptance(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts of each category")] = 4,
    category: Annotated[list[str] | None, typer.Option(help="only these categories")] = None,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/acceptance"),
    tokens: Annotated[int, typer.Option(min=2, help="longest answer, tokens")] = 96,
    drafter: Annotated[list[str] | None, typer.Option(help="drafters to compare; none: all without a model")] = None,
    controllers: Annotated[
        list[str] | None, typer.Option(help="controllers that choose among the drafters, such as roofline,dcut,ucb")
    ] = None,
    draft_tokens: Annotated[int, typer.Option(min=2, max=64, help="rows of a request's verify step")] = 12,
    ngram: Annotated[bool, typer.Option(help="also SGLang's NGRAM at the same rows")] = True,
    skip: Annotated[int, typer.Option(min=0, help="prompts, of all categories in turn, that are left out first")] = 0,
) -> None:
    """Acceptance and speed of drafters and controllers, by prompt category; own engines, batch 1, cold."""
    from service.bench import acceptance_cli
    from service.bench.acceptance import Field
    from service.bench.prompts import of_each_category

    chosen = of_each_category(load_prompts(prompts, categories=tuple(category or ()))[skip:], limit)
    lists = tuple(tuple(part.strip() for part in names.split(",")) for names in controllers or ())
    field = Field(tuple(drafter or MODEL_FREE), lists, draft_tokens, {}, ngram)
    options = acceptance_cli.Options(chosen, tokens, out, field, _say)
    asyncio.run(acceptance_cli.run(options, pool=pool, config_file=config_file))


@app.command()
def matrix(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts, taken from all categories in turn")] = 6,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/matrix"),
    tokens: Annotated[int, typer.Option(min=2, help="longest answer, tokens")] = 40,
    drafter: Annotated[list[str] | None, typer.Option(help="drafters; none: all, those with models too")] = None,
    controllers: Annotated[list[str] | None, typer.Option(help="lists of controllers; none: all")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="requests learn from each other (sharing: pool)")] = False,
) -> None:
    """Every drafter x controller x text, JSON schema, tools x greedy, sampled x batch 1, 4 against plain decoding."""
    from service.bench import matrix_cli

    lists = tuple(tuple(part.strip() for part in names.split(",")) for names in controllers or CONTROLLER_LISTS)
    names = tuple(drafter or (*MODEL_FREE, *MODEL_DRAFTERS))
    options = matrix_cli.Options(load_prompts(prompts, limit), tokens, out, names, lists, _say, shared)
    if not asyncio.run(matrix_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def load(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts, taken from all categories in turn")] = 28,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/load"),
    step: Annotated[list[int] | None, typer.Option(min=1, help="concurrencies in turn; none: 1 4 8 16 1")] = None,
    tokens: Annotated[int, typer.Option(min=2, help="tokens of an answer")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="requests for each place of a phase")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="times that each phase is measured")] = 3,
    drafter: Annotated[list[str] | None, typer.Option(help="drafters to choose from")] = None,
    controllers: Annotated[list[str] | None, typer.Option(help="lists of controllers to compare")] = None,
) -> None:
    """Throughput against plain at changing concurrency; exit status 1 when a phase falls below 0.97 of plain."""
    from service.bench import load_cli

    lists = tuple(tuple(part.strip() for part in names.split(",")) for names in controllers or DEFAULT_CONTROLLERS)
    options = load_cli.Options(
        load_prompts(prompts, limit),
        tuple(step or (1, 4, 8, 16, 1)),
        tokens,
        rounds,
        repeats,
        out,
        tuple(drafter or DEFAULT_DRAFTERS),
        lists,
        _say,
    )
    if not asyncio.run(load_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def inflation(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    limit: Annotated[int, typer.Option(min=1, help="prompts, taken from all categories in turn")] = 40,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/inflation"),
    tokens: Annotated[int, typer.Option(min=2, help="longest answer, tokens")] = 256,
    accept: Annotated[str | None, typer.Option(help="lossy accept rule; none: the pool's own")] = None,
) -> None:
    """Whether a lossy accept rule lengthens answers; exit status 1 when it does not pay."""
    from service.bench import inflation_cli

    options = inflation_cli.Options(load_prompts(prompts, limit), tokens, out, accept, _say)
    if not asyncio.run(inflation_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def quality(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/quality"),
    eviction: Annotated[str | None, typer.Option(help="eviction policy; none: the pool's own")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="tokens kept; none: the pool's own")] = None,
    selector: Annotated[str | None, typer.Option(help="page selector; none: the pool's own")] = None,
    read: Annotated[int | None, typer.Option(min=3, help="tokens read in a step; none: the pool's own")] = None,
    quantization: Annotated[str | None, typer.Option(help="int8, int4, int2; none: the pool's own")] = None,
    rotation: Annotated[str | None, typer.Option(help="rotation before it; none: the pool's own")] = None,
    full: Annotated[str | None, typer.Option(help="its sinks and recent tokens in full precision, as 16+128")] = None,
    dtype: Annotated[str | None, typer.Option(help="KV dtype of both sides; none: the pool's own")] = None,
    context: Annotated[int, typer.Option(min=64, help="tokens of the texts that are read")] = 1024,
    tokens: Annotated[int, typer.Option(min=2, help="tokens of the answers that are forced")] = 64,
    texts: Annotated[int, typer.Option(min=1, help="texts for perplexity")] = 8,
    needles: Annotated[int, typer.Option(min=1, help="needles at each of five depths")] = 2,
    chats: Annotated[int, typer.Option(min=1, help="chats of two turns")] = 6,
) -> None:
    """What a compressed KV cache does to answers; the profile names its report. Exit status 1 when it missed."""
    from service.bench import quality_cli
    from service.bench.quality import Thresholds
    from service.bench.quality_tasks import Sizes

    chosen = {"eviction": eviction, "budget": budget, "selector": selector, "selector_tokens": read}
    chosen |= {"quantization": quantization, "rotation": rotation, "dtype": dtype}
    if full is not None:
        sinks, _, recent = full.partition("+")
        chosen |= {"full_sinks": sinks, "full_recent": recent, "prefix_cache": False}
    options = quality_cli.Options(
        load_prompts(prompts),
        Sizes(context, tokens, texts, needles, chats),
        Thresholds(),
        out,
        {name: value for name, value in chosen.items() if value is not None},
        _say,
    )
    if not asyncio.run(quality_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def perplexity(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/perplexity"),
    cache: Annotated[list[str] | None, typer.Option(help="dtypes, or as int4:hadamard or int2:oscar:16+128")] = None,
    tokens: Annotated[int, typer.Option(min=64, help="tokens of text that are read")] = 20_480,
    skip: Annotated[int, typer.Option(min=0, help="tokens before them, which a calibration may have read")] = 16_384,
    piece: Annotated[int, typer.Option(min=64, help="tokens of one text")] = 1024,
) -> None:
    """Perplexity of the prompts' own text under each KV cache, read by real engines."""
    from service.bench import perplexity_cli
    from service.bench.perplexity import Span

    names = tuple(cache or ("auto", "bfloat16", *(f"int{bits}:{turn}" for bits in (8, 4, 2) for turn in TURNS)))
    options = perplexity_cli.Options(load_prompts(prompts), names, Span(tokens, skip, piece), out, _say)
    asyncio.run(perplexity_cli.run(options, pool=pool, config_file=config_file))


@app.command("kv-cost")
def kv_cost(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/kv-cost"),
    eviction: Annotated[list[str] | None, typer.Option(help="eviction policies; nothing named: all")] = None,
    selector: Annotated[list[str] | None, typer.Option(help="page selectors; nothing named: all")] = None,
    context: Annotated[list[int] | None, typer.Option(min=64, help="tokens of context, in turn")] = None,
    budget: Annotated[int, typer.Option(min=48, help="tokens kept, or read in a step")] = 256,
    limit_s: Annotated[float, typer.Option(min=1, help="no further engine is begun then, seconds")] = 500,
) -> None:
    """Time and bytes of decode steps by length of context, the whole KV cache against each policy, and where they meet.

    Exit status 1 when a policy was left out, or changed a text that fits its budget.
    """
    from service.bench import kv_cost_cli

    options = kv_cost_cli.Options(
        load_prompts(prompts),
        tuple(eviction or ()),
        tuple(selector or ()),
        tuple(sorted(context or DEFAULT_CONTEXTS)),
        budget,
        limit_s,
        out,
        _say,
    )
    if not asyncio.run(kv_cost_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command("kv-soak")
def kv_soak(
    pool: Pool = None,
    config_file: ConfigFile = None,
    prompts: Prompts = DEFAULT_PROMPTS,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/kv-soak"),
    eviction: Annotated[list[str] | None, typer.Option(help="eviction policies, one engine each")] = None,
    requests: Annotated[int, typer.Option(min=1, help="requests of each policy")] = 200,
    budget: Annotated[int, typer.Option(min=1, help="tokens kept")] = 128,
    limit_s: Annotated[
        float, typer.Option(min=1, help="no request begins later, seconds; fewer than all: missed")
    ] = 300,
    seed: Annotated[int, typer.Option(help="of lengths, wishes and aborts")] = 0,
) -> None:
    """Requests that lose tokens, aborts, retractions, poisoned slots; exit status 1 when a slot is lost or read."""
    from service.bench import kv_soak_cli

    policies = tuple(eviction or DEFAULT_SOAKED)
    options = kv_soak_cli.Options(load_prompts(prompts), policies, requests, budget, limit_s, seed, out, _say)
    if not asyncio.run(kv_soak_cli.run(options, pool=pool, config_file=config_file)):
        raise typer.Exit(1)


@app.command()
def gateway(
    target: Annotated[
        list[str] | None, typer.Option(help="only these: specserve, sglang-router, smg, vllm-router, litellm")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="interleaved rounds over all targets")] = 5,
    out: Annotated[Path, typer.Option(help="folder for results and logs")] = Path("bench-out/gateway"),
    streams: Annotated[int, typer.Option(min=1, help="streams at once")] = 64,
    every_ms: Annotated[int, typer.Option(min=1, help="between two chunks of a stream, milliseconds")] = 20,
    chunks: Annotated[int, typer.Option(min=2, help="chunks of a paced stream")] = 100,
    config_file: ConfigFile = None,
) -> None:
    """What the gateway costs, beside its peers, between a paced mock engine and a load generator on loopback.

    Each peer is installed once, in an environment of its own in the cache folder.
    """
    from service.bench.gateway import cli as gateway_cli
    from service.bench.gateway.phases import Sizes
    from service.profiles.config import load_config

    sizes = Sizes(streams=streams, every_ms=every_ms, chunks=chunks)
    cache = load_config(config_file).cache_dir
    options = gateway_cli.Options(tuple(target or ()), rounds, sizes, cache, out, _say)
    if not uvloop.run(gateway_cli.run(options)):
        raise typer.Exit(1)


@app.command()
def model(
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("bench-out/model"),
    context: Annotated[int, typer.Option(min=1, help="tokens of context a request")] = 1024,
) -> None:
    """What published draft methods would give on an A100 and an H200: a model, nothing is measured."""
    from service.bench import model as roofline

    roofline.run(out, context)


def _say(line: str) -> None:
    typer.echo(line, err=True)
