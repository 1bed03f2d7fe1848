"""What `specserve check` tells: settings, each pool's command, and findings. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.engine.plan import plan_command, pool_ports, shape_of
from service.engine.store import ModelStore
from service.profiles.command import HOST, EngineCommand
from service.profiles.config import Config, Pool
from service.profiles.facts import Facts
from service.profiles.quality_file import read_quality
from service.profiles.rules import Finding, check

_EVERYWHERE = "0.0.0.0"
_SGLANG_PORT = 30000


@dataclass(frozen=True)
class PoolReport:
    """One pool: its command (None when no command can be made) and findings, errors first."""

    model: str
    pool: str
    backends: tuple[str, ...]
    command: EngineCommand | None
    findings: tuple[Finding, ...]


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
    ports = pool_ports(config)
    known = replace(known, memory_bytes=_memory_bytes())
    pools = tuple(
        _inspect_pool(model.name, pool, ports.get((model.name, pool.name)), store, known)
        for model in config.models
        for pool in model.pools
    )
    return Report(config.model_dump(mode="json"), pools)


def _inspect_pool(model: str, pool: Pool, local_port: int | None, store: ModelStore, known: Facts) -> PoolReport:
    profile = pool.profile
    facts = replace(
        known,
        target=shape_of(store, profile.target.model),
        draft=shape_of(store, profile.speculation.draft_model),
        quality=read_quality(profile.kv.quality_report),
        kv_calibration_found=None if profile.kv.calibration is None else Path(profile.kv.calibration).is_file(),
    )
    findings = (*_model_problems(pool, store), *check(profile, facts))
    host, port = (HOST, local_port) if local_port is not None else (_EVERYWHERE, _backend_port(pool))
    command = None
    if not any(finding.level == "error" for finding in findings):
        command = plan_command(store, model, profile, port, host)
    return PoolReport(model, pool.name, pool.backends, command, findings)


def _model_problems(pool: Pool, store: ModelStore) -> Iterator[Finding]:
    names = {
        "target.model": pool.profile.target.model,
        "speculation.draft_model": pool.profile.speculation.draft_model,
        "speculation.adapter": pool.profile.speculation.adapter,
    }
    for field, name in names.items():
        if name is not None and (problem := store.problem(name)):
            yield Finding("error", field, problem)


def _backend_port(pool: Pool) -> int:
    return urlsplit(pool.backends[0]).port or _SGLANG_PORT


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
        "backends": list(pool.backends),
        "command": None
        if command is None
        else {"env": dict(command.env), "argv": list(command.argv), "shell": command.shell()},
        "findings": [vars(finding) for finding in pool.findings],
    }
