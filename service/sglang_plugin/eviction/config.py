"""The pool's eviction settings: they come to the engine as JSON in one environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.kvcache.answer_keys import POISON_VARIABLE
from service.sglang_plugin.environment import settings_in

VARIABLE = "SPECSERVE_KV_EVICTION"


@dataclass(frozen=True)
class EvictionConfig:
    """`policy` chooses `budget` tokens of each request; it is asked again when `interval` more are held.

    `options` are the policy's settings. With `poison` (a variable of its own, for tests) every slot that anybody
    frees is filled with NaN, so that every read of one is seen. Raises ValueError for what cannot be obeyed.
    """

    policy: str = "none"
    budget: int = 1024
    interval: int = 32
    options: Mapping[str, Any] = field(default_factory=dict)
    poison: bool = False

    def __post_init__(self) -> None:
        if self.budget < 1 or self.interval < 1:
            raise ValueError("budget and interval must be 1 or more tokens")


def read_config(environment: Mapping[str, str]) -> EvictionConfig:
    """The configuration in `environment`; no eviction without the variable. Raises ValueError for a bad one."""
    config = settings_in(environment, VARIABLE, EvictionConfig)
    return replace(config, poison=environment.get(POISON_VARIABLE) == "1")
