"""Which engines a configuration starts on this machine, and where."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from service.engine.placement import Placement, placements
from service.engine.store import ModelStore
from service.errors import ConfigError
from service.profiles.command import HOST, EngineCommand, ModelSource, engine_command
from service.profiles.config import Config
from service.profiles.facts import ModelShape, model_shape
from service.profiles.machine import Machine, Role
from service.profiles.schema import Profile
from service.settings import EngineSettings


@dataclass(frozen=True)
class EnginePlan:
    """One engine to start: a pool's name, profile, port and command.

    `generates`: it answers completions by itself, which prefill and decode engines and machines behind the first of
    several do not.
    """

    model: str
    pool: str
    profile: Profile
    port: int
    command: EngineCommand
    host: str = HOST
    generates: bool = True

    @property
    def url(self) -> str:
        """Base URL of the engine, for this machine."""
        return f"http://[::1]:{self.port}" if ":" in self.host else local_url(self.port)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that must be prepared: target, and draft model or adapter."""
        draft = _draft(self.profile)
        return (self.profile.target.model,) if draft is None else (self.profile.target.model, draft)


def local_url(port: int) -> str:
    """Base URL of a local engine."""
    return f"http://{HOST}:{port}"


def plan_engines(
    config: Config, store: ModelStore, pool: str | None = None, role: Role | None = None
) -> tuple[EnginePlan, ...]:
    """The engines of all pools without backends, or those of one pool, which may have backends.

    Ports do not depend on `pool`. `role` tells a pool's prefill engines from its decode engines. Starts and prepares
    nothing. Raises ConfigError for a pool that does not exist, a missing or needless role, and a machine of several
    that does not know its place.
    """
    if pool is None:
        chosen = tuple(placement for placement in placements(config) if placement.local)
    else:
        chosen = _of_pool(config, pool, role)
    return tuple(_plan(placement, config.engine, store) for placement in chosen)


def with_local_backends(config: Config) -> Config:
    """The configuration with the local engines' URLs filled in as backends."""
    ports = {(place.model, place.pool.name): place.port for place in placements(config) if place.local}
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


def placed_command(store: ModelStore, placement: Placement, settings: EngineSettings) -> EngineCommand:
    """The engine command with models as the store locates them. Prepares nothing."""
    profile, draft = placement.profile, _draft(placement.profile)
    leader = settings.leader_address
    return engine_command(
        profile,
        port=placement.port,
        host=placement.host,
        served_name=placement.model,
        target=_source(store, profile.target.model),
        draft=None if draft is None else _source(store, draft),
        role=placement.role,
        machine=Machine(settings.node_rank) if leader is None else Machine(settings.node_rank, leader),
    )


def shape_of(store: ModelStore, model: str | None) -> ModelShape | None:
    """Sizes of a model whose folder is at hand; None for hub names and models not prepared yet."""
    if model is None:
        return None
    try:
        return model_shape(json.loads((Path(store.location(model)) / "config.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _of_pool(config: Config, pool: str, role: Role | None) -> tuple[Placement, ...]:
    known = tuple(placements(config))
    chosen = tuple(placement for placement in known if placement.pool.name == pool)
    if not chosen:
        names = ", ".join(dict.fromkeys(placement.pool.name for placement in known))
        raise ConfigError([f"there is no pool {pool!r}; pools: {names}"])
    roles = {placement.role for placement in chosen}
    if role is None and roles != {"whole"}:
        raise ConfigError([f"pool {pool!r} has prefill and decode engines: give --role prefill or --role decode"])
    if role is not None and role not in roles:
        raise ConfigError([f"pool {pool!r} has no {role} engines: leave --role out, or give the pool `prefill`"])
    return tuple(placement for placement in chosen if role in (None, placement.role))


def _plan(placement: Placement, settings: EngineSettings, store: ModelStore) -> EnginePlan:
    nodes = placement.profile.runtime.nodes
    if nodes > 1 and settings.leader_address is None:
        raise ConfigError([f"pool {placement.pool.name!r} runs on {nodes} machines: set engine.leader_address"])
    if settings.node_rank >= nodes:
        raise ConfigError(
            [f"engine.node_rank {settings.node_rank} is beyond the {nodes} machines of pool {placement.pool.name!r}"]
        )
    return EnginePlan(
        placement.model,
        placement.pool.name,
        placement.profile,
        placement.port,
        placed_command(store, placement, settings),
        host=placement.host,
        generates=placement.role == "whole" and settings.node_rank == 0,
    )


def _draft(profile: Profile) -> str | None:
    return profile.speculation.draft_model or profile.speculation.adapter


def _source(store: ModelStore, model: str) -> ModelSource:
    return ModelSource(store.location(model), store.is_offline(model), store.tool_call_parser(model))
