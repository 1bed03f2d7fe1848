"""Structured logs: one line per request, never with prompt text."""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import BinaryIO, Literal

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

# structlog prints local variables by default: prompts and keys.
_EXCEPTION = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(log_format: LogFormat = "console", level: LogLevel = "info") -> None:
    """Set up structlog for this process. Call it once, where the process starts."""
    minimum = logging.getLevelNamesMapping()[level.upper()]
    if log_format == "json":
        lines = Lines(sys.stdout.buffer)
        atexit.register(lines.flush)
        structlog.configure(
            processors=[_as_json],
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            logger_factory=lambda *_: lines,
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.dev.ConsoleRenderer(
                    colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            cache_logger_on_first_use=True,
        )


def _as_json(logger: WrappedLogger, method: str, event: EventDict) -> bytes:
    """Level, time and rendering in one step: each step of structlog's own costs a request a microsecond."""
    structlog.processors.add_log_level(logger, method, event)
    event["timestamp"] = datetime.now(UTC)
    if "exc_info" in event:
        event = _EXCEPTION(logger, method, event)
    return orjson.dumps(event, default=str, option=orjson.OPT_UTC_Z)


class Lines:
    """Writes lines to a file; those of one turn of an event loop leave in one system call.

    Any thread may use it. Outside a loop a line is written at once; `flush` writes what still waits.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def msg(self, line: bytes) -> None:
        """Write the line, at the latest in the next turn of the loop."""
        with self._lock:
            self._waiting.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if self._loop is not loop:
            self._loop = loop
            loop.call_soon(self.flush)

    debug = info = warning = error = critical = exception = msg

    def flush(self) -> None:
        """Write what waits. Blocks as long as the file does."""
        with self._lock:
            waiting, self._waiting, self._loop = self._waiting, [], None
            if waiting:
                self._file.write(b"\n".join([*waiting, b""]))
                self._file.flush()
