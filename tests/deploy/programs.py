"""Programs of Debian's packages, or a skip that says why there is none."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from tests.deploy.compose import ROOT


@cache
def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debian_programs", ROOT / "deploy" / "debian" / "programs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


@cache
def program(name: str) -> Any:
    """`path` and `env` of a program; skips the test where it cannot be had."""
    try:
        return _script().program(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
