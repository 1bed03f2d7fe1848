"""The checksum list inside a prepared model folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

NAME = "specserve-manifest.json"
_BLOCK_BYTES = 1 << 22


def write(folder: Path, source: str) -> None:
    """Hash every file of a folder and write the list into it; `source` says what it was made from."""
    files = {path.name: _describe(path) for path in sorted(folder.iterdir()) if path.name != NAME}
    _dump(folder, {"source": source, "files": files})


def looks_intact(folder: Path) -> bool:
    """Compare sizes and modification times only; takes microseconds."""
    listed = _load(folder)
    return listed is not None and all(_same_stat(folder / name, entry) for name, entry in listed["files"].items())


def damaged_files(folder: Path) -> tuple[str, ...]:
    """Names of files whose checksum differs or that are missing; reads everything, so it blocks for seconds.

    A folder without a list counts its list as damaged. Modification times are refreshed when all is well,
    so that a copied cache is read in full only once.
    """
    listed = _load(folder)
    if listed is None:
        return (NAME,)
    damaged = [
        name
        for name, entry in listed["files"].items()
        if not (folder / name).is_file() or sha256(folder / name) != entry["sha256"]
    ]
    if not damaged and not looks_intact(folder):
        _refresh(folder, listed)
    return tuple(damaged)


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _refresh(folder: Path, listed: dict[str, Any]) -> None:
    for name, entry in listed["files"].items():
        entry["mtime_ns"] = (folder / name).stat().st_mtime_ns
    try:
        _dump(folder, listed)
    except OSError:
        # A read-only cache is checked in full at each start; it is not wrong.
        return


def _describe(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"sha256": sha256(path), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _same_stat(path: Path, entry: dict[str, Any]) -> bool:
    if not path.is_file():
        return False
    stat = path.stat()
    return bool(stat.st_size == entry["bytes"] and stat.st_mtime_ns == entry["mtime_ns"])


def _load(folder: Path) -> dict[str, Any] | None:
    try:
        listed = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return listed if isinstance(listed, dict) and isinstance(listed.get("files"), dict) else None


def _dump(folder: Path, listed: dict[str, Any]) -> None:
    temporary = folder / f"{NAME}.tmp"
    temporary.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    temporary.replace(folder / NAME)
