"""The dashboards: as their boards say, in PromQL that Prometheus takes, about series that are there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pydantic import ValidationError

from tests.deploy.compose import ROOT, compose_file, sources
from tests.deploy.programs import program
from tests.deploy.promql import DASHBOARDS, asked_by, dashboards, filled_in, known, names_in

NAMES = ("backends", "kv", "latency", "queue", "speculation")


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_dashboards", ROOT / "deploy/grafana/write_dashboards.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_boards_say(writer: ModuleType) -> None:
    boards = writer.boards()
    assert tuple(boards) == NAMES == tuple(dashboards())
    for name, board in boards.items():
        assert (DASHBOARDS / f"{name}.json").read_text("utf-8") == writer.written(name, board), "run `make docs`"


def test_a_misspelt_board_is_refused(writer: ModuleType) -> None:
    with pytest.raises(ValidationError, match="titel"):
        writer.Panel.model_validate({"title": "a", "titel": "b"})


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_ask_for_series_that_are_there(name: str) -> None:
    queries = [query for _, query in asked_by(dashboards()[name])]
    assert len(queries) > 5
    assert {series for query in queries for series in names_in(filled_in(query))} - known() == set()


def test_prometheus_takes_every_query(tmp_path: Path) -> None:
    asked = [(name, *found) for name, board in dashboards().items() for found in asked_by(board)]
    rules = [{"record": f"q:number_{number}", "expr": filled_in(query)} for number, (_, _, query) in enumerate(asked)]
    path = tmp_path / "rules.yml"

    def check(*more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        path.write_text(json.dumps({"groups": [{"name": "q", "rules": [*rules, *more]}]}), encoding="utf-8")
        return subprocess.run([program("promtool").path, "check", "rules", path], capture_output=True, text=True)

    assert check().returncode == 0, check().stderr
    assert check({"record": "q:wrong", "expr": "sum by (pool (up)"}).returncode != 0


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_titled_wired_and_side_by_side(name: str) -> None:
    board = dashboards()[name]
    assert board["uid"] == f"specserve-{name}"
    chosen = [found["name"] for found in board["templating"]["list"]]
    assert chosen == ["datasource", "namespace", "model", "pool"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    places = set()
    for panel in board["panels"]:
        assert panel["title"]
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & places and max(x for x, _ in cells) < 24
        places |= cells
        if panel["type"] != "row":
            assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}"


def test_what_the_operator_was_promised_is_there() -> None:
    everything = {name: json.dumps(board) for name, board in dashboards().items()}
    assert "position" in everything["speculation"] and "specserve_spec_speedup_estimate" in everything["speculation"]
    assert "state" in everything["kv"] and "specserve_kv_cache_info" in everything["kv"]
    heat = [panel for panel in dashboards()["latency"]["panels"] if panel["type"] == "heatmap"]
    assert len(heat) >= 4
    assert all(
        "_bucket" in panel["targets"][0]["expr"] and panel["targets"][0]["format"] == "heatmap" for panel in heat
    )


def test_compose_gives_them_to_grafana() -> None:
    mounts = sources(compose_file()["services"]["grafana"])
    provider = ROOT / mounts["/etc/grafana/provisioning"] / "dashboards" / "specserve.yaml"
    path = yaml.safe_load(provider.read_text(encoding="utf-8"))["providers"][0]["options"]["path"]
    assert (ROOT / mounts[path]).resolve() == DASHBOARDS
