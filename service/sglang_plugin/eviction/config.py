"""The pool's eviction settings: they come to the engine as JSON in one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

VARIABLE = "SPECSERVE_KV_EVICTION"
POISON = "SPECSERVE_KV_POISON"
"""Set to 1, freed slots are filled with NaN."""


@dataclass(frozen=True)
class EvictionConfig:
    """`policy` chooses `budget` tokens of each request; it is asked again when `interval` more are held.

    `options` are the policy's settings. With `poison` (a variable of its own, for tests) freed slots are filled with
    NaN, so that every read of one is seen.
    """

    policy: str = "none"
    budget: int = 1024
    interval: int = 32
    options: Mapping[str, Any] = field(default_factory=dict)
    poison: bool = False


def read_config(environment: Mapping[str, str]) -> EvictionConfig:
    """The configuration in `environment`; no eviction without the variable. Raises ValueError for a bad one."""
    text = environment.get(VARIABLE)
    if text is None:
        return EvictionConfig()
    try:
        values = json.loads(text)
        unknown = set(values) - {known.name for known in fields(EvictionConfig) if known.name != "poison"}
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        config = EvictionConfig(**values, poison=environment.get(POISON) == "1")
        if config.budget < 1 or config.interval < 1:
            raise ValueError("budget and interval must be 1 or more tokens")
        return config
    except (ValueError, TypeError) as error:
        raise ValueError(f"{VARIABLE} holds no valid settings: {error}; `specserve check` prints valid ones") from None
