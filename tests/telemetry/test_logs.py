"""Structured logs."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from typing import Any, Literal

import pytest
import structlog

from service.telemetry.logs import Lines, configure


def test_json_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure("json", "warning")
    log = structlog.get_logger("specserve")
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


class CountingFile(io.BytesIO):
    """Counts the writes."""

    writes = 0

    def write(self, data: Any) -> int:
        self.writes += 1
        return super().write(data)


def test_lines_of_one_turn_of_the_loop_are_one_write() -> None:
    file = CountingFile()
    lines = Lines(file)

    async def main() -> None:
        for _ in range(2):
            lines.msg(b"one")
            lines.msg(b"two")
            await asyncio.sleep(0)

    asyncio.run(main())
    assert (file.getvalue(), file.writes) == (b"one\ntwo\n" * 2, 2)


def test_a_line_outside_a_loop_is_written_at_once_with_what_a_dead_loop_left() -> None:
    file = CountingFile()
    lines = Lines(file)

    async def main() -> None:
        lines.msg(b"left")

    asyncio.run(main())
    lines.msg(b"next")
    assert file.getvalue() == b"left\nnext\n"


def test_no_thread_loses_a_line() -> None:
    file = CountingFile()
    lines = Lines(file)

    async def write() -> None:
        for _ in range(500):
            lines.msg(b"x")
            await asyncio.sleep(0)

    threads = [threading.Thread(target=lambda: asyncio.run(write())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines.flush()
    assert file.getvalue() == b"x\n" * 2000
