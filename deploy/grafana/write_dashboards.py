"""Writes `dashboards/*.json`, which Grafana reads as they are, from `boards/*.yaml`: `make docs`.

In the queries of a board `SEL` stands for the chosen namespaces, models and pools, and `RATE` for Grafana's interval.
A panel with a `histogram` shows its heat map, or its median, 95th and 99th percentile `by` pool, of buckets summed over
gateways: nothing averages a mean. Made with Grafana's own Foundation SDK, which checks what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import yaml
from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, statetimeline, table
from grafana_foundation_sdk.builders import timeseries as series
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from pydantic import BaseModel, ConfigDict

Kind = Literal["lines", "heat", "stat", "bars", "states", "table"]

HERE = Path(__file__).parent
RATE = "[$__rate_interval]"
SELECTED = 'namespace=~"$namespace",model=~"$model",pool=~"$pool"'
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTHS = {"wide": 24, "half": 12, "third": 8}


class Panel(BaseModel):
    """One picture. `mark`: the value at which the colour changes, such as 1 for a speed-up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    queries: dict[str, str] = {}
    histogram: str | None = None
    by: str = "pool"
    kind: Kind = "lines"
    unit: str = "short"
    help: str = ""
    width: Literal["wide", "half", "third"] = "half"
    mark: float | None = None
    most: float | None = None

    def expressions(self) -> list[tuple[str, str]]:
        """What to ask, behind the name of its lines."""
        queries = self.queries
        if self.histogram is not None and self.kind == "heat":
            queries = {"{{le}}": f"sum by (le) (increase({self.histogram}_bucket{{SEL}}RATE))"}
        elif self.histogram is not None:
            buckets = f"sum by ({self.by}, le) (rate({self.histogram}_bucket{{SEL}}RATE))"
            queries = {
                f"{{{{{self.by}}}}} p{rank}": f"histogram_quantile(0.{rank}, {buckets})" for rank in (50, 95, 99)
            }
        return [(name, text.replace("SEL", SELECTED).replace("RATE", RATE)) for name, text in queries.items()]


class Row(BaseModel):
    """Panels under a heading."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heading: str
    panels: tuple[Panel, ...]


class Board(BaseModel):
    """A dashboard."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    help: str
    rows: tuple[Row, ...]


def boards() -> dict[str, Board]:
    """Every board by the name of its file, which is also its identity in Grafana."""
    files = sorted((HERE / "boards").glob("*.yaml"))
    return {path.stem: Board.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in files}


def written(name: str, board: Board) -> str:
    """The dashboard as Grafana reads it."""
    return JSONEncoder(sort_keys=True, indent=1).encode(build(name, board)) + "\n"


def build(name: str, board: Board) -> models.Dashboard:
    """The dashboard as Grafana's model."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"specserve-{name}")
        .description(board.help)
        .tags(["specserve"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(dashboard.DashboardLink("specserve").type(models.DashboardLinkType.DASHBOARDS).tags(["specserve"]))
    )
    made.with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    within = ""
    for label in ("namespace", "model", "pool"):
        made.with_variable(_variable(label, within))
        within += f'{"," if within else ""}{label}=~"${label}"'
    number = count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.heading).id(next(number)))
        for panel in row.panels:
            made.with_panel(_panel(panel).id(next(number)))
    return made.build()


def _variable(name: str, within: str) -> dashboard.QueryVariable:
    query = f"label_values(specserve_requests_total{{{within}}}, {name})"
    return (
        dashboard.QueryVariable(name)
        .label(name)
        .datasource(_SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .all_value(".*")
        .multi(True)
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(panel: Panel) -> Any:
    made = _MAKERS[panel.kind]()
    made.title(panel.title).description(panel.help).datasource(_SOURCE).unit(panel.unit)
    made.span(_WIDTHS[panel.width]).height(8)
    if panel.kind in ("lines", "bars"):
        made.min(0)
        if panel.most is not None:
            made.max(panel.most)
    if panel.kind == "heat":
        made.y_axis(heatmap.YAxisConfig().unit(panel.unit))
    if panel.mark is not None:
        made.thresholds(_marks(panel.mark))
        if panel.kind == "lines":
            made.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    for letter, (name, expression) in zip(ascii_uppercase, panel.expressions(), strict=False):
        made.with_target(_target(letter, name, expression, panel.kind))
    return made


def _target(letter: str, name: str, expression: str, kind: Kind) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(_SOURCE).expr(expression).legend_format(name).ref_id(letter)
    if kind == "heat":
        return target.format(PromQueryFormat.HEATMAP).range()
    if kind in ("stat", "bars", "table"):
        return target.format(PromQueryFormat.TABLE if kind == "table" else PromQueryFormat.TIME_SERIES).instant()
    return target.range()


def _marks(mark: float) -> dashboard.ThresholdsConfig:
    steps: Sequence[models.Threshold] = [
        models.Threshold(value=None, color="red"),
        models.Threshold(value=mark, color="green"),
    ]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(list(steps))


def _lines() -> Any:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)
    return series.Panel().legend(legend.show_legend(True)).fill_opacity(8).tooltip(tooltip)


def _heat() -> Any:
    colours = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Turbo").steps(64)
    return heatmap.Panel().calculate(False).color(colours)


def _bars() -> Any:
    return bargauge.Panel().reduce_options(_LAST).orientation(VizOrientation.HORIZONTAL)


def _stat() -> Any:
    return stat.Panel().reduce_options(_LAST).color_mode(BigValueColorMode.VALUE)


def _states() -> Any:
    down = models.ValueMappingResult(text="down", color="red", index=0)
    up = models.ValueMappingResult(text="up", color="green", index=1)
    return statetimeline.Panel().mappings([models.ValueMap(options={"0": down, "1": up})])


def _table() -> Any:
    hidden = {"Time": True, "Value": True, "__name__": True, "instance": True, "job": True}
    organise = models.DataTransformerConfig(id_val="organize", options={"excludeByName": hidden})
    return table.Panel().transformations([organise])


_LAST = common.ReduceDataOptions().calcs(["lastNotNull"])
_MAKERS: dict[Kind, Callable[[], Any]] = {
    "lines": _lines,
    "heat": _heat,
    "stat": _stat,
    "bars": _bars,
    "states": _states,
    "table": _table,
}


def main() -> None:
    """Write all, and delete what is no more."""
    folder = HERE / "dashboards"
    for path in folder.glob("*.json"):
        path.unlink()
    for name, board in boards().items():
        (folder / f"{name}.json").write_text(written(name, board), encoding="utf-8")


if __name__ == "__main__":
    main()
