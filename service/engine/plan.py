"""Which engines a configuration starts on this machine, and where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.command import HOST, EngineCommand, ModelSource, engine_command
from service.profiles.config import Config, Pool
from service.profiles.facts import ModelShape, model_shape
from service.profiles.schema import Profile


@dataclass(frozen=True)
class EnginePlan:
    """One engine to start: a pool's name, profile, port and command."""

    model: str
    pool: str
    profile: Profile
    port: int
    command: EngineCommand

    @property
    def url(self) -> str:
        """Base URL of the engine."""
        return local_url(self.port)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that must be prepared: target, and draft model or adapter."""
        draft = _draft(self.profile)
        return (self.profile.target.model,) if draft is None else (self.profile.target.model, draft)


def local_url(port: int) -> str:
    """Base URL of a local engine."""
    return f"http://{HOST}:{port}"


def plan_engines(config: Config, store: ModelStore, pool: str | None = None) -> tuple[EnginePlan, ...]:
    """The engines of all pools without backends, or of one pool. Ports do not depend on `pool`.

    Starts and prepares nothing. Raises ConfigError for a pool that does not exist or has backends.
    """
    plans = tuple(
        EnginePlan(model, local.name, local.profile, port, plan_command(store, model, local.profile, port))
        for model, local, port in _local_pools(config)
        if pool in (None, local.name)
    )
    if pool is not None and not plans:
        known = ", ".join(local.name for _, local, _ in _local_pools(config)) or "none"
        raise ConfigError([f"there is no pool {pool!r} without backends; such pools: {known}"])
    return plans


def with_local_backends(config: Config) -> Config:
    """The configuration with the local engines' URLs filled in as backends."""
    ports = pool_ports(config)
    models = tuple(
        model.model_copy(
            update={
                "pools": tuple(
                    pool.model_copy(update={"backends": (local_url(ports[model.name, pool.name]),)})
                    if (model.name, pool.name) in ports
                    else pool
                    for pool in model.pools
                )
            }
        )
        for model in config.models
    )
    return config.model_copy(update={"models": models})


def pool_ports(config: Config) -> dict[tuple[str, str], int]:
    """Ports of the local engines by names of model and pool."""
    return {(model, pool.name): port for model, pool, port in _local_pools(config)}


def plan_command(store: ModelStore, served_name: str, profile: Profile, port: int, host: str = HOST) -> EngineCommand:
    """The engine command with models as the store locates them. Prepares nothing."""
    draft = _draft(profile)
    return engine_command(
        profile,
        port=port,
        host=host,
        served_name=served_name,
        target=_source(store, profile.target.model),
        draft=None if draft is None else _source(store, draft),
    )


def shape_of(store: ModelStore, model: str | None) -> ModelShape | None:
    """Sizes of a model whose folder is at hand; None for hub names and models not prepared yet."""
    if model is None:
        return None
    try:
        return model_shape(json.loads((Path(store.location(model)) / "config.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _local_pools(config: Config) -> Iterator[tuple[str, Pool, int]]:
    port = config.engine.first_port
    for model in config.models:
        for pool in model.pools:
            if not pool.backends:
                yield model.name, pool, port
                port += 1


def _draft(profile: Profile) -> str | None:
    return profile.speculation.draft_model or profile.speculation.adapter


def _source(store: ModelStore, model: str) -> ModelSource:
    return ModelSource(store.location(model), store.is_offline(model), store.tool_call_parser(model))
