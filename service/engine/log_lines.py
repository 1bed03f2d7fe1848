"""Engine output as log records: one line, one level."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

_LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s+(.*)")
_LONGEST_LINE = 16384
_READ_BYTES = 65536


@dataclass(frozen=True)
class LogLine:
    """`level` is one of debug, info, warning, error, critical."""

    level: str
    text: str


@dataclass
class LineParser:
    """Gives each line its level; lines without one (tracebacks) keep that of the line before.

    Mutates itself: remembers the last level and the last lines in `tail`.
    """

    tail: deque[str] = field(default_factory=lambda: deque(maxlen=30))
    _level: str = "info"

    def parse(self, line: str) -> LogLine:
        """One line without its line break."""
        self.tail.append(line)
        if match := _LEVEL.match(line):
            self._level = match[1].lower()
            return LogLine(self._level, match[2])
        if line.startswith("Traceback "):
            self._level = "error"
        return LogLine(self._level, line)


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Decoded lines until the stream ends; lines above 16 KiB come in pieces, blank ones not at all."""
    pending = b""
    while block := await stream.read(_READ_BYTES):
        *whole, pending = (pending + block).split(b"\n")
        for line in whole:
            for piece in _pieces(line):
                yield piece
        if len(pending) > _LONGEST_LINE:
            for piece in _pieces(pending):
                yield piece
            pending = b""
    for piece in _pieces(pending):
        yield piece


def _pieces(line: bytes) -> Iterator[str]:
    # Progress bars overwrite themselves with carriage returns; only their last state is worth a line.
    text = line.rstrip().rpartition(b"\r")[2]
    for start in range(0, len(text), _LONGEST_LINE):
        yield text[start : start + _LONGEST_LINE].decode("utf-8", errors="replace")
