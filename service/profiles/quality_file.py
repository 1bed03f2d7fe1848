"""Reading a pool's quality report."""

from __future__ import annotations

import json
from pathlib import Path

from service.profiles.facts import QualityReport


def read_quality(path: str | None) -> QualityReport | None:
    """What the report at `path` says; None without a path. Reads one file; a bad one is told in `problem`."""
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return QualityReport(
            policy=str(found["policy"]),
            model=str(found["model"]),
            passed=bool(found["passed"]),
            missed=tuple(str(name) for name in found["missed"]),
        )
    except OSError as error:
        return QualityReport(problem=f"{path} cannot be read ({error.strerror})")
    except (ValueError, KeyError, TypeError):
        return QualityReport(problem=f"{path} is no report of `specserve bench quality`")
