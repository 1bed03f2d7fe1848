"""What a figure depends on: the machine and the versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("specserve", "sglang", "torch", "fastapi", "uvicorn", "locust")


def machine_facts() -> dict[str, Any]:
    """Cores, processor, memory and versions; a package that is not installed is None."""
    facts: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory, GiB": round(psutil.virtual_memory().total / 2**30, 1),
        "Python": platform.python_version(),
    }
    return facts | {name: _version(name) for name in _PACKAGES}


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
