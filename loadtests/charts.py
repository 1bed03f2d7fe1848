"""Charts of one or several runs as SVG inside HTML. Needs matplotlib."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from loadtests.record import Record, Slo
from loadtests.summary import MEASURES, summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[str, Sequence[Record]]
_ANY = Slo(1e9, 1e9)
_TITLES = {
    "ttft_s": "Time to first token",
    "itl_s": "Between pieces of text (ITL)",
    "tpot_s": "Per token after the first (TPOT)",
    "e2e_s": "Request to end",
}


def charts(runs: Runs) -> list[tuple[str, str]]:
    """(title, SVG) of each chart that the records have figures for."""
    drawn = [(title, _cumulative(runs, MEASURES[name])) for name, title in _TITLES.items()]
    drawn.append(("First tokens over the test", _over_time(runs)))
    drawn.append(("Requests in flight", _in_flight(runs)))
    drawn.append(("Acceptance length by kind", _by_kind(runs, "acceptance_length", "tokens per verify step")))
    drawn.append(("Prefix hits by kind", _by_kind(runs, "prefix_hit_share", "share of prompt tokens")))
    return [(title, _svg(figure)) for title, figure in drawn if figure is not None]


def live_page(records: Sequence[Record]) -> str:
    """A page that loads itself again every five seconds."""
    parts = [f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>" for title, svg in _drawn(records)]
    body = "".join(parts) or "<p>No answer has come yet.</p>"
    return f'<!doctype html><title>Speculation</title><meta http-equiv="refresh" content="5"><body>{body}'


def _drawn(records: Sequence[Record]) -> list[tuple[str, str]]:
    return charts({"this run": records}) if records else []


def _cumulative(runs: Runs, take: Callable[[Record], Iterable[float]]) -> Figure | None:
    figure, empty = _figure("milliseconds, log scale", "share of all"), True
    axes = figure.axes[0]
    for name, records in runs.items():
        values = sorted(value * 1e3 for record in records for value in take(record))
        if values:
            empty = False
            axes.plot(values, [(place + 1) / len(values) for place in range(len(values))], label=name)
    axes.set_xscale("log")
    axes.legend()
    return None if empty else figure


def _over_time(runs: Runs) -> Figure | None:
    figure, empty = _figure("seconds of the test", "seconds to the first token"), True
    for name, records in runs.items():
        points = [(record.at, record.ttft_s) for record in records if record.ttft_s is not None]
        if points:
            empty = False
            figure.axes[0].plot(*zip(*points, strict=True), ".", markersize=3, label=name)
    figure.axes[0].legend()
    return None if empty else figure


def _in_flight(runs: Runs) -> Figure | None:
    figure = _figure("seconds of the test", "requests")
    for name, records in runs.items():
        changes = sorted((at, step) for r in records for at, step in ((r.at, 1), (r.at + r.e2e_s, -1)))
        open_now, points = 0, []
        for at, step in changes:
            open_now += step
            points.append((at, open_now))
        if points:
            figure.axes[0].step(*zip(*points, strict=True), where="post", label=name)
    figure.axes[0].legend()
    return figure if any(runs.values()) else None


def _by_kind(runs: Runs, figure_name: str, unit: str) -> Figure | None:
    tables = {name: summarize(records, 1, _ANY)["kinds"] for name, records in runs.items()}
    kinds = sorted({kind for table in tables.values() for kind, row in table.items() if row[figure_name] is not None})
    if not kinds:
        return None
    figure = _figure("", unit)
    width = 0.8 / len(tables)
    for number, (name, table) in enumerate(tables.items()):
        # A kind without the figure has no bar.
        known = [(place, table[kind][figure_name]) for place, kind in enumerate(kinds) if kind in table]
        bars = [(place + number * width, value) for place, value in known if value is not None]
        if bars:
            places, values = zip(*bars, strict=True)
            figure.axes[0].bar(places, values, width, label=name)
    figure.axes[0].set_xticks([place + 0.4 - width / 2 for place in range(len(kinds))], kinds)
    figure.axes[0].legend()
    return figure


def _figure(x: str, y: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="tight")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    return figure


def _svg(figure: Figure) -> str:
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
