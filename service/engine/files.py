"""Folders that appear whole or not at all, and locks between processes."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; blocks until it is free. The kernel frees it on death."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when the block ends well, and vanishes when it does not.

    An older `folder` is replaced. The caller holds a lock if others may write the same folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable UTF-8 JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
