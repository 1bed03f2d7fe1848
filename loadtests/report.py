"""`python -m loadtests.report RUN [OTHER]`: one HTML page with tables and charts; two runs are compared by ratio."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader

from loadtests.charts import charts
from loadtests.journal import read_records
from loadtests.record import Record
from loadtests.summary import MEASURES, quantile

RESAMPLES = 400


@dataclass(frozen=True)
class Run:
    """One run's folder, read: what was measured and every request of it."""

    name: str
    summary: Mapping[str, Any]
    records: Sequence[Record]

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Raises OSError and ValueError, naming the file."""
        path = folder / "summary.json"
        try:
            summary = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON: {error}") from None
        return cls(folder.name, summary, read_records(folder / "requests.jsonl"))


def ratios(run: Run, other: Run) -> list[dict[str, Any]]:
    """Medians of `run` over those of `other`, with a 95 % bootstrap interval; only what both have.

    Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, percentile interval.
    """
    random = Random(1)
    rows = []
    for name, take in MEASURES.items():
        ours = [value for record in run.records for value in take(record)]
        theirs = [value for record in other.records for value in take(record)]
        if not ours or not theirs:
            continue
        spread = sorted(
            _median(random.choices(ours, k=len(ours))) / _median(random.choices(theirs, k=len(theirs)))
            for _ in range(RESAMPLES)
        )
        low, high = spread[int(0.025 * RESAMPLES)], spread[int(0.975 * RESAMPLES) - 1]
        rows.append({"measure": name, "ratio": _median(ours) / _median(theirs), "low": low, "high": high})
    return rows


def write_report(path: Path, run: Run, other: Run | None = None) -> Path:
    """Write the page. Blocks for a second or two of drawing."""
    runs = [run] if other is None else [run, other]
    page = Environment(loader=PackageLoader("loadtests", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page.filters["shown"] = _shown
    text = page.get_template("report.html.jinja").render(
        runs=runs,
        ratios=ratios(run, other) if other else [],
        charts=charts({one.name: one.records for one in runs}),
    )
    path.write_text(text, encoding="utf-8")
    return path


def _median(values: Sequence[float]) -> float:
    middle = quantile(values, 0.5)
    assert middle is not None
    return max(middle, 1e-9)


def _shown(value: object, times: float = 1) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value * times:.4g}" if isinstance(value, int | float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 2 for folders that hold no run."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.report", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run: summary.json and requests.jsonl")
    parser.add_argument("other", type=Path, nargs="?", help="folder of the run that it is compared with")
    parser.add_argument("--to", type=Path, help="the page; none: report.html in the run's folder")
    options = parser.parse_args(arguments)
    try:
        run = Run.read(options.run)
        other = Run.read(options.other) if options.other else None
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{write_report(options.to or options.run / 'report.html', run, other)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
