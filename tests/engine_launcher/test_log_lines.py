from __future__ import annotations

import asyncio

import pytest

from service.engine.log_lines import LineParser, LogLine, lines


async def split(*blocks: bytes) -> list[str]:
    stream = asyncio.StreamReader()
    for block in blocks:
        stream.feed_data(block)
    stream.feed_eof()
    return [line async for line in lines(stream)]


async def test_lines_are_cut_anywhere() -> None:
    assert await split(b"one\ntw", b"o\r\n\nthree") == ["one", "two", "three"]


async def test_progress_bars_show_their_last_state() -> None:
    assert await split(b"load 1%\rload 50%\rload 100%\n") == ["load 100%"]


async def test_long_lines_and_bad_bytes_survive() -> None:
    assert "".join(await split(b"x" * 40_000 + b"\n")) == "x" * 40_000
    assert await split(b"\xff ok\n") == ["\ufffd ok"]


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ("INFO a.b: hello", "info", "a.b: hello"),
        ("INFO:     Started server", "info", "Started server"),
        ("WARNING a: careful", "warning", "a: careful"),
        ("plain text", "info", "plain text"),
    ],
)
def test_levels(line: str, level: str, text: str) -> None:
    assert LineParser().parse(line) == LogLine(level, text)


def test_tracebacks_are_errors_until_the_next_level() -> None:
    parser = LineParser()
    found = [parser.parse(line).level for line in ("Traceback (most recent call last):", "  File x", "E: y", "INFO z")]
    assert found == ["error", "error", "error", "info"]
    assert list(parser.tail)[-1] == "INFO z"
