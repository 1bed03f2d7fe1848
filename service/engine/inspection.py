"""What `specserve check` tells: settings, each pool's command, and findings. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.engine.placement import Placement, placements
from service.engine.plan import placed_command, shape_of
from service.engine.store import ModelStore
from service.profiles.command import EngineCommand
from service.profiles.config import Config
from service.profiles.facts import Facts
from service.profiles.machine import ANY_LEADER, Role
from service.profiles.quality_file import read_quality
from service.profiles.rules import Finding, check
from service.profiles.schema import Profile
from service.settings import EngineSettings


@dataclass(frozen=True)
class PoolReport:
    """One pool's engines of one role: the command (None when none can be made) and findings, errors first."""

    model: str
    pool: str
    backends: tuple[str, ...]
    command: EngineCommand | None
    findings: tuple[Finding, ...]
    role: Role = "whole"


@dataclass(frozen=True)
class Report:
    """The whole answer; `settings` is the resolved tree with secrets hidden."""

    settings: dict[str, Any]
    pools: tuple[PoolReport, ...]

    @property
    def has_errors(self) -> bool:
        """Whether any pool cannot work."""
        return any(finding.level == "error" for pool in self.pools for finding in pool.findings)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "ok": not self.has_errors,
            "settings": self.settings,
            "pools": [_pool_json(pool) for pool in self.pools],
        }


def inspect(config: Config, store: ModelStore, known: Facts) -> Report:
    """Judge every pool of a configuration; `known` are the registered names.

    Reads model configs and quality reports that are at hand, nothing else.
    """
    known = replace(known, memory_bytes=_memory_bytes())
    pools = tuple(_inspect_pool(placement, config.engine, store, known) for placement in placements(config))
    return Report(config.model_dump(mode="json"), pools)


def _inspect_pool(placement: Placement, engine: EngineSettings, store: ModelStore, known: Facts) -> PoolReport:
    profile = placement.profile
    facts = replace(
        known,
        target=shape_of(store, profile.target.model),
        draft=shape_of(store, profile.speculation.draft_model),
        role=placement.role,
        quality=read_quality(profile.kv.quality_report),
        kv_calibration_found=None if profile.kv.calibration is None else Path(profile.kv.calibration).is_file(),
    )
    findings = (*_model_problems(profile, store), *check(profile, facts), *_unknown_leader(profile, engine))
    command = None
    if not any(finding.level == "error" for finding in findings):
        command = placed_command(store, placement, engine)
    pool = placement.pool
    return PoolReport(placement.model, pool.name, pool.backends, command, findings, placement.role)


def _model_problems(profile: Profile, store: ModelStore) -> Iterator[Finding]:
    names = {
        "target.model": profile.target.model,
        "speculation.draft_model": profile.speculation.draft_model,
        "speculation.adapter": profile.speculation.adapter,
    }
    for field, name in names.items():
        if name is not None and (problem := store.problem(name)):
            yield Finding("error", field, problem)


def _unknown_leader(profile: Profile, engine: EngineSettings) -> Iterator[Finding]:
    if profile.runtime.nodes > 1 and engine.leader_address is None:
        yield Finding(
            "warning",
            "engine.leader_address",
            f"{ANY_LEADER} stands for the address of the first machine: set it where the engine starts",
        )


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _pool_json(pool: PoolReport) -> dict[str, Any]:
    command = pool.command
    return {
        "model": pool.model,
        "pool": pool.pool,
        "role": pool.role,
        "backends": list(pool.backends),
        "command": None
        if command is None
        else {"env": dict(command.env), "argv": list(command.argv), "shell": command.shell()},
        "findings": [vars(finding) for finding in pool.findings],
    }
