"""docker-compose.yml as Compose reads it, without Compose."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "deploy" / "compose" / "without_docker.py"


def runner() -> ModuleType:
    """The script that starts the file's services without Docker."""
    spec = importlib.util.spec_from_file_location("without_docker", RUNNER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def compose_file(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its variables filled in, from `variables` or their defaults."""
    content: dict[str, Any] = runner().read_compose(variables or {})
    return content


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """A service's variables."""
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def sources(service: Mapping[str, Any]) -> dict[str, str]:
    """Where a service's mounts come from, by their places in the container; volumes and folders alike."""
    parts = (mount.split(":") for mount in service.get("volumes", ()))
    return {part[1]: part[0] for part in parts}
