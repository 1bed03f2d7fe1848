"""What every benchmark with own engines begins with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from service.bench.models import base_profile, prepared
from service.bench.servers import Workshop
from service.engine.store import ModelStore
from service.profiles.config import load_config
from service.profiles.schema import Profile


def open_workshop(
    config_file: Path | None, pool: str | None, out: Path, say: Callable[[str], None]
) -> tuple[Workshop, Profile]:
    """A workshop that logs to `out`, and the profile of the pool, whose model is made ready. Blocks for seconds.

    Raises ConfigError for a bad configuration, an unknown pool, and a target that is a hub name.
    """
    config = load_config(config_file)
    base = base_profile(config, pool)
    store = ModelStore(config.cache_dir)
    prepared(store, base.target.model, say)
    return Workshop(store, config.engine, out / "logs"), base
