"""docker-compose.yml as Compose reads it, without Compose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def compose_file(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its variables filled in, from `variables` or their defaults; anchors are resolved by YAML."""
    given = variables or {}
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    filled = _VARIABLE.sub(lambda found: given.get(found[1], found[2]), text)
    content: dict[str, Any] = yaml.safe_load(filled)
    return content


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """A service's variables."""
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def sources(service: Mapping[str, Any]) -> dict[str, str]:
    """Where a service's mounts come from, by their places in the container; volumes and folders alike."""
    parts = (mount.split(":") for mount in service.get("volumes", ()))
    return {part[1]: part[0] for part in parts}
