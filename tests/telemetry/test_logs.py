"""Structured logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

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


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_values(
    log_format: Literal["json", "console"], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    configure(log_format)
    prompt = "a " + "secret"
    try:
        raise RuntimeError(f"a bug, {len(prompt)} characters")
    except RuntimeError:
        structlog.get_logger().exception("unexpected error")
    out = capfdbinary.readouterr().out
    assert b"a bug, 8 characters" in out
    assert b"a secret" not in out
