"""The console script `specserve`. Commands only parse, call and print; none imports torch or sglang."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvloop
from pydantic import ValidationError

from service.bench.cli import app as bench_app
from service.cli_calibrate import app as calibrate_app
from service.cli_keys import app as keys_app
from service.cli_models import app as models_app
from service.cli_options import (
    CacheDir,
    ConfigArgument,
    ConfigOption,
    Host,
    LogFormat,
    LogLevel,
    OpsPort,
    Port,
    read_config,
)
from service.cli_reference import rewrite_file
from service.cli_trial import trial
from service.cli_values import rewrite_schema
from service.cli_view import Announcement, preparing, print_methods, print_report
from service.engine.inspection import inspect
from service.engine.plan import EnginePlan, plan_engines, with_local_backends
from service.engine.process import refuse_busy_port
from service.engine.store import ModelStore
from service.engine.supervisor import Engines, run_beside, until_signal
from service.errors import ConfigError, SpecserveError
from service.kvcache.eviction import eviction_registry
from service.kvcache.rotation import rotation_registry
from service.kvcache.selection import selector_registry
from service.profiles.config import Config
from service.profiles.facts import Facts
from service.profiles.machine import Role
from service.profiles.methods import methods as known_methods
from service.speculation.accept_rule import accept_registry
from service.speculation.controller import controller_registry
from service.speculation.drafter import drafter_registry

app = typer.Typer(
    name="specserve",
    help="OpenAI-compatible inference with measured speculative decoding, on SGLang.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench", help="Measure a running service or a pool.")
app.add_typer(calibrate_app, name="calibrate", help="Fit a method to a model.")
app.add_typer(keys_app, name="keys", help="Make API keys.")
app.add_typer(models_app, name="models", help="Prepare, verify and cut models.")


@app.command()
def serve(
    config_file: ConfigOption = None,
    host: Host = None,
    port: Port = None,
    ops_port: OpsPort = None,
    cache_dir: CacheDir = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    since: Annotated[float | None, typer.Option(hidden=True, help="count seconds from this Unix time")] = None,
    footprint: Annotated[list[Path] | None, typer.Option(hidden=True, help="report the size of this")] = None,
) -> None:
    """Start engines for all pools without backends, and the gateway before them; stop both with Ctrl-C."""
    started = time.time() if since is None else since
    config = read_config(config_file, host, port, ops_port, cache_dir, log_level, log_format)
    store = ModelStore(config.cache_dir)
    plans = _checked_plans(config, store)
    _refuse_busy_gateway(config)
    _prepare(plans, store)
    announcement = Announcement(started, (*(footprint or ()), config.cache_dir))
    _run(run_beside(plans, config.engine, lambda engines: _serve(config, engines, announcement)))


@app.command()
def gateway(
    config_file: ConfigOption = None,
    host: Host = None,
    port: Port = None,
    ops_port: OpsPort = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Start the gateway alone; pools without backends are expected where `specserve engine` puts them."""
    config = read_config(config_file, host, port, ops_port, None, log_level, log_format)
    _refuse_busy_gateway(config)
    _run(_gateway(config))


@app.command()
def engine(
    config_argument: ConfigArgument = None,
    config_file: ConfigOption = None,
    pool: Annotated[str | None, typer.Option(help="start this pool's engine only, as one of its backends")] = None,
    role: Annotated[Role | None, typer.Option(help="which engines of a pool with prefill engines")] = None,
    cache_dir: CacheDir = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Start the engines of pools without backends, alone; stop them with Ctrl-C.

    With --pool, that pool's engine starts, also where the pool has backends: it then is one of them.
    """
    config = read_config(config_argument or config_file, None, None, None, cache_dir, log_level, log_format)
    store = ModelStore(config.cache_dir)
    plans = _checked_plans(config, store, pool, role)
    if not plans:
        raise ConfigError(["every pool has backends: name the one whose engine is to start here with --pool"])
    _prepare(plans, store)

    async def until_stopped(engines: Engines) -> None:
        del engines
        await until_signal()

    _run(run_beside(plans, config.engine, until_stopped))


@app.command()
def check(
    config_argument: ConfigArgument = None,
    config_file: ConfigOption = None,
    cache_dir: CacheDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print resolved settings, each pool's SGLang command and what is impossible or risky; start nothing.

    Exit status 2 when something is impossible, else 0.
    """
    config = read_config(config_argument or config_file, cache_dir=cache_dir)
    report = inspect(config, ModelStore(config.cache_dir), _registered())
    if as_json:
        typer.echo(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2))
    else:
        print_report(report)
    raise typer.Exit(2 if report.has_errors else 0)


@app.command()
def methods(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List the registered methods by kind, third parties' included."""
    known = known_methods(
        drafters=drafter_registry(),
        controllers=controller_registry(),
        accept_rules=accept_registry(),
        kv_eviction=eviction_registry(),
        page_selectors=selector_registry(),
        kv_rotations=rotation_registry(),
    )
    if as_json:
        typer.echo(orjson.dumps(known, option=orjson.OPT_INDENT_2))
    else:
        print_methods(known)


@app.command(hidden=True)
def reference(
    document: Annotated[Path, typer.Argument(help="Markdown file with markers, or a chart's values.schema.json")],
) -> None:
    """Rewrite the generated tables of a document, or the settings in a chart's schema."""
    if document.suffix == ".json":
        rewrite_schema(document)
    else:
        rewrite_file(document)


def main() -> None:
    """Entry point: every expected error becomes one sentence on standard error and exit status 2."""
    try:
        app()
    except ValidationError as error:
        _fail(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
    except ConfigError as error:
        _fail(error.reasons)
    except (SpecserveError, OSError) as error:
        _fail([str(error)])


async def _serve(config: Config, engines: Engines, announcement: Announcement) -> None:
    async def announce() -> None:
        await engines.wait_ready()
        await announcement.when_ready(config)

    speaking = asyncio.create_task(announce())
    try:
        await _gateway(config)
    finally:
        speaking.cancel()


async def _gateway(config: Config) -> None:
    from service.api.serve import run

    await run(with_local_backends(config))


def _run(main_task: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main_task)


def _registered() -> Facts:
    return Facts(
        drafters=tuple(drafter_registry()),
        controllers=tuple(controller_registry()),
        accept_rules=tuple(accept_registry()),
        kv_eviction=tuple(eviction_registry()),
        page_selectors=tuple(selector_registry()),
        kv_rotations=tuple(rotation_registry()),
        trial=trial,
    )


def _checked_plans(
    config: Config, store: ModelStore, pool: str | None = None, role: Role | None = None
) -> tuple[EnginePlan, ...]:
    report = inspect(config, store, _registered())
    errors = [
        f"pool {found.pool}: {finding.field}: {finding.message}"
        for found in report.pools
        for finding in found.findings
        if finding.level == "error" and pool in (None, found.pool) and role in (None, found.role)
    ]
    if errors:
        raise ConfigError(errors)
    return plan_engines(config, store, pool, role)


def _prepare(plans: tuple[EnginePlan, ...], store: ModelStore) -> None:
    for model in dict.fromkeys(name for plan in plans for name in plan.models):
        store.prepare(model, preparing)


def _refuse_busy_gateway(config: Config) -> None:
    for port in (config.gateway.port, config.gateway.ops_port):
        refuse_busy_port(config.gateway.host, port)


def _fail(reasons: Any) -> None:
    for reason in reasons:
        typer.echo(f"specserve: {reason}", err=True)
    sys.exit(2)
