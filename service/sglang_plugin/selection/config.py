"""The pool's page selection: it comes to the engine as JSON in one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

VARIABLE = "SPECSERVE_KV_SELECTION"


@dataclass(frozen=True)
class SelectionConfig:
    """`selector` chooses pages of `page` tokens, about `tokens` in all, for texts longer than that."""

    selector: str = "none"
    tokens: int = 2048
    page: int = 16
    options: Mapping[str, Any] = field(default_factory=dict)


def read_config(environment: Mapping[str, str]) -> SelectionConfig:
    """The configuration in `environment`; no selection without the variable. Raises ValueError for a bad one."""
    text = environment.get(VARIABLE)
    if text is None:
        return SelectionConfig()
    try:
        values = json.loads(text)
        unknown = set(values) - {known.name for known in fields(SelectionConfig)}
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        config = SelectionConfig(**values)
        if config.page < 1 or config.tokens < 3 * config.page:
            raise ValueError("tokens must be three pages or more")
        return config
    except (ValueError, TypeError) as error:
        raise ValueError(f"{VARIABLE} holds no valid settings: {error}; `specserve check` prints valid ones") from None
