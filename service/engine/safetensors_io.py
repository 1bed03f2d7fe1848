"""Write safetensors files as a stream, so that a conversion never holds the whole model in memory.

The format: 8 bytes header length (little-endian), a JSON header, then the raw tensors back to back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_ALIGNMENT = 8
_COPY_BYTES = 1 << 22
_FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: `start` and `end` are bytes from the first byte after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def write_float32(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Iterable[tuple[str, memoryview]],
    advance: Callable[[int], None],
) -> None:
    """Write float32 `tensors`, which must come in the order of `shapes`; `advance` gets the bytes written."""
    entries, offset = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape) * _FLOAT32_BYTES
        entries[name] = Entry("F32", shape, offset, offset + size)
        offset += size
    with path.open("wb") as out:
        _write_header(out, entries)
        for (name, entry), (found, data) in zip(entries.items(), tensors, strict=True):
            if found != name or data.nbytes != entry.end - entry.start:
                raise ValueError(f"expected tensor {name!r}, got {found!r} of {data.nbytes} bytes")
            out.write(data)
            advance(data.nbytes)


def read_entries(path: Path) -> tuple[dict[str, Entry], int]:
    """The tensors of a file and the position of its first data byte."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    entries = {name: Entry(item["dtype"], tuple(item["shape"]), *item["data_offsets"]) for name, item in header.items()}
    return entries, 8 + length


def copy_renamed(source: Path, target: Path, rename: Callable[[str], str | None]) -> None:
    """Copy a file's tensors under new names; those that `rename` maps to None are left out."""
    entries, base = read_entries(source)
    kept: dict[str, tuple[Entry, Entry]] = {}
    offset = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
        new_name = rename(name)
        if new_name is None:
            continue
        size = entry.end - entry.start
        kept[new_name] = (entry, Entry(entry.dtype, entry.shape, offset, offset + size))
        offset += size
    with source.open("rb") as read, target.open("wb") as out:
        _write_header(out, {name: new for name, (_, new) in kept.items()})
        for old, _ in kept.values():
            _copy(read, out, base + old.start, old.end - old.start)


def _write_header(out: BinaryIO, entries: Mapping[str, Entry]) -> None:
    header = {
        name: {"dtype": e.dtype, "shape": list(e.shape), "data_offsets": [e.start, e.end]}
        for name, e in entries.items()
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    out.write(len(text).to_bytes(8, "little"))
    out.write(text)


def _copy(read: BinaryIO, out: BinaryIO, position: int, size: int) -> None:
    read.seek(position)
    while size:
        block = read.read(min(size, _COPY_BYTES))
        if not block:
            raise ValueError("the file ends inside a tensor")
        out.write(block)
        size -= len(block)
