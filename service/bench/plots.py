"""Line plots as PNG; bars are in `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def plot_lines(
    path: Path,
    title: str,
    series: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    at: Sequence[float] | None = None,
) -> None:
    """One line a series over `at`, or over 1, 2, 3, ..., as PNG. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5))
    axes = figure.subplots()
    for name, values in series.items():
        axes.plot(at or range(1, len(values) + 1), values, marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=120, bbox_inches="tight")
