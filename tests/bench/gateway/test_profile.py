"""The profile of the gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from service.bench.gateway.profile import run


def test_it_shows_our_own_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(run(tmp_path, "cumtime", requests=2000))
    table = capsys.readouterr().out
    assert "Ordered by: cumulative time" in table
    assert "(run_asgi)" in table
