"""What the engine's command line cannot say about algorithm SPECSERVE: it comes as JSON in one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

VARIABLE = "SPECSERVE_SPECULATION"
SHARING = ("request", "pool")


@dataclass(frozen=True)
class SpecConfig:
    """`drafters` to choose from, `controllers` from the outermost in, `options` by drafter name.

    `sharing` says what drafters may learn across requests: nothing, or all of this engine's requests as one tenant.
    `accept` is the rule for greedy requests; all but `strict` are lossy.
    """

    drafters: tuple[str, ...] = ("prompt_lookup",)
    controllers: tuple[str, ...] = ("fixed",)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sharing: Literal["request", "pool"] = "request"
    accept: str = "strict"
    accept_options: Mapping[str, Any] = field(default_factory=dict)


def read_config(environment: Mapping[str, str]) -> SpecConfig:
    """The configuration in `environment`; the defaults without the variable. Raises ValueError for a bad one."""
    text = environment.get(VARIABLE)
    if text is None:
        return SpecConfig()
    try:
        values = json.loads(text)
        unknown = set(values) - {"drafters", "controllers", "options", "sharing", "accept", "accept_options"}
        if unknown or values.get("sharing", "request") not in SHARING:
            raise ValueError(f"unknown {', '.join(sorted(unknown)) or 'sharing'}")
        return SpecConfig(
            drafters=tuple(values.get("drafters") or SpecConfig.drafters),
            controllers=tuple(values.get("controllers") or SpecConfig.controllers),
            options=dict(values.get("options") or {}),
            sharing=cast(Literal["request", "pool"], values.get("sharing", "request")),
            accept=str(values.get("accept") or SpecConfig.accept),
            accept_options=dict(values.get("accept_options") or {}),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{VARIABLE} holds no valid settings: {error}; `specserve check` prints valid ones") from None
