"""The script that runs the compose file's services as plain processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.profiles.config import load_config
from tests.deploy.compose import runner


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("SPECSERVE_CACHE_DIR", "/own/cache")
    script = runner()
    return {process.name: process for process in script.processes(script.read_compose({}), tmp_path)}


def test_commands_are_those_of_the_file_on_loopback(started: dict[str, Any]) -> None:
    assert list(started) == ["engine", "gateway", "prometheus"]
    engine, gateway = started["engine"].argv, started["gateway"].argv
    assert (engine[:3], engine[4:]) == (("specserve", "engine", "--config"), ("--pool", "default"))
    assert (gateway[:3], gateway[4:]) == (("specserve", "gateway", "--config"), ("--host", "127.0.0.1"))
    variables = dict(started["engine"].env)
    assert variables["SPECSERVE_ENGINE__HOST"] == "127.0.0.1"
    assert variables["SPECSERVE_CACHE_DIR"] == "/own/cache"
    assert "HOME" not in variables


def test_the_gateway_looks_for_services_here_and_for_no_others(started: dict[str, Any]) -> None:
    (model,) = load_config(Path(started["gateway"].argv[3])).models
    assert {pool.name: pool.backends for pool in model.pools} == {
        "default": ("http://127.0.0.1:30000",),
        "gpu": ("http://127.0.0.1:9",),
    }


def test_prometheus_reads_copies_and_stores_beside_them(started: dict[str, Any], tmp_path: Path) -> None:
    config, storage, _ = (arg.partition("=")[2] for arg in started["prometheus"].argv[1:])
    assert Path(storage).is_dir() and storage.startswith(str(tmp_path))
    jobs = yaml.safe_load(Path(config).read_text(encoding="utf-8"))["scrape_configs"]
    targets = [part["targets"] for job in jobs for part in job["static_configs"]]
    assert targets == [["127.0.0.1:8001"], ["127.0.0.1:30000"], ["127.0.0.1:9"]]
