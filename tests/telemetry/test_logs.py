"""Structured logs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog

from service.telemetry.logs import configure


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure("json", "warning")
    log = structlog.get_logger()
    log.info("hidden")
    log.warning("shown", answer=42)
    lines = capfdbinary.readouterr().out.splitlines()
    assert len(lines) == 1
    record = json.loads(lines[0])
    assert (record["event"], record["answer"], record["level"]) == ("shown", 42, "warning")
