"""Where results go: summary.json, a table on the terminal, PNG plots."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def write_summary(folder: Path, summary: Mapping[str, Any]) -> Path:
    """`folder/summary.json`, the folder made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "summary.json"
    path.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output; None shows as a dash, floats with three digits."""
    table = Table(title=title)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(width=None if Console().is_terminal else 140).print(table)


def plots_missing() -> str | None:
    """Why no plots can be drawn, or None when they can."""
    if importlib.util.find_spec("matplotlib") is None:
        return "no plots: matplotlib is not installed (pip install 'specserve[bench]')"
    return None


def plot_bars(
    path: Path,
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    unit: str,
    stacked: bool = False,
) -> None:
    """Horizontal bars as PNG: one group a label, one colour a series. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.5 + 0.45 * len(labels) * (1 if stacked else max(1, len(series) / 2))))
    axes = figure.subplots()
    thickness = 0.8 if stacked else 0.8 / len(series)
    left = [0.0] * len(labels)
    for number, (name, values) in enumerate(series.items()):
        offset = 0.0 if stacked else (number - (len(series) - 1) / 2) * thickness
        axes.barh(
            [i + offset for i in range(len(labels))],
            values,
            thickness,
            left=left if stacked else None,
            label=name,
        )
        if stacked:
            left = [sum(pair) for pair in zip(left, values, strict=True)]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_title(title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
