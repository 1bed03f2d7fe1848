"""The pool's page selection: it comes to the engine as JSON in one environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.sglang_plugin.environment import settings_in

VARIABLE = "SPECSERVE_KV_SELECTION"


@dataclass(frozen=True)
class SelectionConfig:
    """`selector` chooses pages of `page` tokens, about `tokens` in all, for texts longer than that.

    Raises ValueError for what cannot be obeyed.
    """

    selector: str = "none"
    tokens: int = 2048
    page: int = 16
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.page < 1 or self.tokens < 3 * self.page:
            raise ValueError("tokens must be three pages or more")


def read_config(environment: Mapping[str, str]) -> SelectionConfig:
    """The configuration in `environment`; no selection without the variable. Raises ValueError for a bad one."""
    return settings_in(environment, VARIABLE, SelectionConfig)
