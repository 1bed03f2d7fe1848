"""Structured logs: one line per request, never with prompt text."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

# structlog prints local variables by default: prompts and keys.
_TRACEBACK = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def configure(log_format: LogFormat = "console", level: LogLevel = "info") -> None:
    """Set up structlog for this process. Call it once, where the process starts."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    minimum = logging.getLevelNamesMapping()[level.upper()]
    if log_format == "json":
        structlog.configure(
            processors=[*shared, structlog.processors.ExceptionRenderer(_TRACEBACK), _as_json],
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            logger_factory=structlog.BytesLoggerFactory(),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[
                *shared,
                structlog.dev.ConsoleRenderer(
                    colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            cache_logger_on_first_use=True,
        )


def _as_json(_: WrappedLogger, __: str, event: EventDict) -> bytes:
    return orjson.dumps(event, default=str)
