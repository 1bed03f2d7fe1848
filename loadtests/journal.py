"""Keeps every record, writes it down at once, and gives tables while the test runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import orjson

from loadtests.record import Record


class Journal:
    """Records in memory and in `FOLDER/requests.jsonl`, one line each, written as the request ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "requests.jsonl"
        self._file = self.path.open("wb", buffering=0)
        self._records: list[Record] = []
        self.sent = 0

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def records(self) -> Sequence[Record]:
        """All so far, in the order in which they ended."""
        return self._records

    @property
    def in_flight(self) -> int:
        """Sent and not yet ended."""
        return self.sent - len(self._records)

    def add(self, record: Record) -> None:
        """Keep it. Blocks for one small write."""
        self._records.append(record)
        self._file.write(orjson.dumps(record.line(), option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Close the file; records stay readable."""
        self._file.close()


def read_records(path: Path) -> list[Record]:
    """The records of a `requests.jsonl`. Raises OSError and ValueError, naming the line."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            records.append(Record.from_line(orjson.loads(line)))
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number} is no record of a request: {error}") from None
    return records
