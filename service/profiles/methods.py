"""The names of everything that a profile can choose from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from service.profiles.schema import Algorithm


def methods(**registries: Iterable[str]) -> dict[str, list[str]]:
    """Names by kind: the algorithms, and the sorted names of each given registry."""
    return {
        "algorithms": list(get_args(Algorithm)),
        **{kind: sorted(names) for kind, names in registries.items()},
    }
