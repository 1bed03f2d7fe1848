"""Server-sent events as bytes: cutting at event borders and reading the data of one event."""

from __future__ import annotations

import re

# Atomic groups: a CRLF must not be taken for two line ends.
_BORDER = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\n|\r")


class Splitter:
    """Cuts a byte stream into whole events. Nothing is lost or changed: the events joined are the input."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """Bytes of an event that is not complete yet."""
        return self._rest

    def feed(self, chunk: bytes) -> list[bytes]:
        """Events that are complete now, each with its blank line."""
        # A border may begin in the last three bytes that were held back; earlier ones were searched already.
        searched = max(len(self._rest) - 3, 0)
        data = self._rest + chunk
        events, start = [], 0
        for border in _BORDER.finditer(data, searched):
            events.append(data[start : border.end()])
            start = border.end()
        self._rest = data[start:]
        return events


def event_data(event: bytes) -> bytes:
    """The `data` of one event, its lines joined; empty for a comment."""
    lines = []
    for line in _LINE.split(event):
        if line.startswith(b"data:"):
            value = line[5:]
            lines.append(value[1:] if value.startswith(b" ") else value)
    return b"\n".join(lines)


def data_event(data: bytes) -> bytes:
    """An event that carries one line of data."""
    return b"data: " + data + b"\n\n"
