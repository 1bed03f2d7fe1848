"""Options that several commands share; descriptions and defaults come from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from service.profiles.config import Config, load_config
from service.settings import GatewaySettings
from service.telemetry import logs


def _of(section: type[BaseModel], name: str) -> Any:
    """An option without a default of its own, so that environment and file can set it too."""
    field = section.model_fields[name]
    default = "" if field.default_factory is not None else f" (default: {field.default})"
    return typer.Option(help=f"{field.description}{default}", show_default=False)


_CONFIG_HELP = "YAML file of settings; environment variables SPECSERVE_* and options come before it"
ConfigArgument = Annotated[Path | None, typer.Argument(help=_CONFIG_HELP, show_default=False)]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="SPECSERVE_CONFIG", help=_CONFIG_HELP, show_default=False),
]
Host = Annotated[str | None, _of(GatewaySettings, "host")]
Port = Annotated[int | None, _of(GatewaySettings, "port")]
OpsPort = Annotated[int | None, _of(GatewaySettings, "ops_port")]
CacheDir = Annotated[Path | None, _of(Config, "cache_dir")]
LogLevel = Annotated[str | None, _of(Config, "log_level")]
LogFormat = Annotated[str | None, _of(Config, "log_format")]


def read_config(
    path: Path | None,
    host: str | None = None,
    port: int | None = None,
    ops_port: int | None = None,
    cache_dir: Path | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
) -> Config:
    """The settings tree with given options on top; configures logging by it. Raises as `load_config` does."""
    gateway = _given(host=host, port=port, ops_port=ops_port)
    rest = _given(cache_dir=cache_dir, log_level=log_level, log_format=log_format)
    config = load_config(path, **({"gateway": gateway} if gateway else {}), **rest)
    logs.configure(config.log_format, config.log_level)
    return config


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
