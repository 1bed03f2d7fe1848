"""Every engine that a configuration knows: whose it is, what it does, and where it listens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from service.profiles.command import HOST
from service.profiles.config import Config, Pool
from service.profiles.machine import Role
from service.profiles.schema import Profile

_SGLANG_PORT = 30000


@dataclass(frozen=True)
class Placement:
    """One engine; those of pools with backends (not `local`) answer other machines."""

    model: str
    pool: Pool
    role: Role
    host: str
    port: int

    @property
    def local(self) -> bool:
        """Whether `specserve serve` starts it."""
        return not self.pool.backends

    @property
    def profile(self) -> Profile:
        """What it runs: the pool's profile, a prefill engine with a runtime of its own."""
        if self.role == "prefill" and self.pool.prefill is not None:
            return self.pool.profile.model_copy(update={"runtime": self.pool.prefill})
        return self.pool.profile


def placements(config: Config) -> Iterator[Placement]:
    """All engines in the order of the configuration; a pool with prefill engines has two kinds.

    Local ones get ports from `engine.first_port` on; others have the port of their pool's first backend.
    """
    local_port = config.engine.first_port
    for model in config.models:
        for pool in model.pools:
            if pool.backends:
                port = urlsplit(pool.backends[0]).port or _SGLANG_PORT
                for role in _roles(pool):
                    yield Placement(model.name, pool, role, config.engine.host, port)
            else:
                yield Placement(model.name, pool, "whole", HOST, local_port)
                local_port += 1


def _roles(pool: Pool) -> tuple[Role, ...]:
    return ("whole",) if pool.prefill is None else ("prefill", "decode")
