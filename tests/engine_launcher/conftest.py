from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from service.engine.plan import EnginePlan
from service.profiles.command import EngineCommand
from service.profiles.schema import Profile
from service.settings import EngineSettings

FAKE = Path(__file__).with_name("fake_engine.py")
PlanFake = Callable[..., EnginePlan]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def plan(port: int, tmp_path: Path) -> PlanFake:
    def make(*options: str) -> EnginePlan:
        command = EngineCommand((sys.executable, str(FAKE), str(port), str(tmp_path), *options), ())
        return EnginePlan("m", "default", Profile(), port, command)

    return make


@pytest.fixture
def settings() -> EngineSettings:
    return EngineSettings(
        ready_timeout_s=10,
        stop_grace_s=0.5,
        restart_backoff_s=0.05,
        restart_backoff_max_s=0.2,
        max_restarts=2,
    )


@pytest.fixture
def starts(tmp_path: Path) -> Callable[[], list[int]]:
    def read() -> list[int]:
        path = tmp_path / "starts"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    return read
