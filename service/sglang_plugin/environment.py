"""Settings that the engine's command line cannot carry: each pool feature's come as JSON in a variable of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Settings = TypeVar("Settings")


def settings_in(environment: Mapping[str, str], variable: str, build: Callable[..., Settings]) -> Settings:
    """What `build` makes of the variable's JSON object as keywords; without the variable, of none.

    Raises ValueError for anything that is no JSON object or that `build` refuses with ValueError, TypeError or
    AttributeError.
    """
    try:
        values: dict[str, Any] = json.loads(environment.get(variable, "{}"))
        return build(**values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{variable} holds no valid settings: {error}; `specserve check` prints valid ones") from None
