"""What the engine's command line cannot say about algorithm SPECSERVE: it comes as JSON in one environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from service.sglang_plugin.environment import settings_in

VARIABLE = "SPECSERVE_SPECULATION"
SHARING = ("request", "pool")
LAYOUTS = ("auto", "ragged", "padded")


@dataclass(frozen=True)
class SpecConfig:
    """`drafters` to choose from, `controllers` from the outermost in, `options` by drafter name, `controller_options`
    by controller name.

    `sharing` says what drafters may learn across requests: nothing, or all of this engine's requests as one tenant.
    `accept` is the rule for greedy requests; all but `strict` are lossy. `layout` is how trees lie in a verify batch:
    one behind the other, or each padded to the same width; auto takes what the device's attention reads.
    """

    drafters: tuple[str, ...] = ("prompt_lookup",)
    controllers: tuple[str, ...] = ("fixed",)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sharing: Literal["request", "pool"] = "request"
    accept: str = "strict"
    accept_options: Mapping[str, Any] = field(default_factory=dict)
    controller_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    layout: Literal["auto", "ragged", "padded"] = "auto"


def read_config(environment: Mapping[str, str]) -> SpecConfig:
    """The configuration in `environment`; the defaults without the variable. Raises ValueError for a bad one."""
    return settings_in(environment, VARIABLE, _config)


def _config(**values: Any) -> SpecConfig:
    """As JSON has it: lists, and null or nothing for a default."""
    given = {name: value for name, value in values.items() if value}
    for name in ("drafters", "controllers"):
        if name in given:
            given[name] = tuple(given[name])
    for name in ("options", "controller_options", "accept_options"):
        if name in given:
            given[name] = dict(given[name])
    config = SpecConfig(**given)
    if config.sharing not in SHARING:
        raise ValueError(f"sharing is {' or '.join(SHARING)}, not {config.sharing!r}")
    if config.layout not in LAYOUTS:
        raise ValueError(f"layout is {' or '.join(LAYOUTS)}, not {config.layout!r}")
    return config
