"""The compose file: valid, whole, closed, and its commands run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from service import cli
from service.engine.plan import EnginePlan
from tests.deploy.compose import ROOT, compose_file, environment, sources
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.wait import wait_until

SETTINGS = "/etc/specserve/specserve.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose_file()["services"]
    return found


def specification() -> Draft202012Validator:
    """The Compose specification's schema, as the wheel `check-jsonschema` carries it."""
    place = distribution("check-jsonschema").locate_file("check_jsonschema/builtin_schemas/vendor/compose-spec.json")
    return Draft202012Validator(json.loads(Path(str(place)).read_text(encoding="utf-8")))


def test_the_file_keeps_to_the_specification() -> None:
    content = compose_file()
    assert [error.message for error in specification().iter_errors(content)] == []
    content["services"]["gateway"]["portz"] = []
    assert any("portz" in error.message for error in specification().iter_errors(content))


def test_what_it_names_is_there(services: dict[str, Any]) -> None:
    volumes = set(compose_file()["volumes"])
    for service in services.values():
        for source in sources(service).values():
            assert source in volumes or (ROOT / source).exists(), source
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        assert set(service.get("depends_on", ())) <= set(services)


def test_images_are_pinned_and_can_be_pinned_by_digest() -> None:
    for service in compose_file()["services"].values():
        assert service["image"].rpartition(":")[2] not in ("", "latest")
    given = {"PYTHON_BASE": "mirror/python@sha256:1", "SGLANG_BASE": "mirror/sglang@sha256:2"}
    builds = [service["build"] for service in compose_file(given)["services"].values() if "build" in service]
    assert {build["args"]["BASE"] for build in builds} == set(given.values())


def test_services_are_closed(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_gpu_is_a_profile(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "profiles" in service} == {"engine-gpu"}
    assert services["engine-gpu"]["profiles"] == ["gpu"]
    assert services["engine-gpu"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


def test_prometheus_and_grafana_look_at_services_and_ports_that_are_there(services: dict[str, Any]) -> None:
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    targets = {target for job in jobs for part in job["static_configs"] for target in part["targets"]}
    assert targets == {"gateway:8001", "engine:30000", "engine-gpu:30000"}
    source = yaml.safe_load((ROOT / "deploy/grafana/provisioning/datasources/prometheus.yaml").read_text("utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    assert {target.partition(":")[0] for target in targets} | {"prometheus"} <= set(services)


@pytest.mark.parametrize(("name", "pool"), [("engine", "default"), ("engine-gpu", "gpu")])
def test_engines_start_what_check_prints(
    services: dict[str, Any], name: str, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[EnginePlan] = []
    monkeypatch.setattr(cli, "run_beside", lambda given, *_: plans.extend(given))
    monkeypatch.setattr(cli, "_run", lambda _: None)
    monkeypatch.setattr(cli, "_prepare", lambda plans, store: None)
    file = str(ROOT / sources(services[name])[SETTINGS])
    args = [file if arg == SETTINGS else arg for arg in services[name]["command"]]
    variables = environment(services[name])
    started = CliRunner().invoke(cli.app, args, env=variables, catch_exceptions=False)
    assert started.exit_code == 0, started.output
    printed = CliRunner().invoke(cli.app, ["check", file, "--json"], env=variables, catch_exceptions=False)
    (shown,) = (found for found in json.loads(printed.stdout)["pools"] if found["pool"] == pool)
    (plan,) = plans
    assert list(plan.command.argv) == shown["command"]["argv"]
    assert (plan.host, plan.port) == ("0.0.0.0", 30000)
    assert shown["backends"] == [f"http://{name}:30000"]
    assert dict(plan.command.env)["HF_HUB_OFFLINE"] == "1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def gateway_process(command: list[str], folder: Path, engine: str) -> Iterator[tuple[str, str]]:
    """The gateway's command of the file on loopback, its engine at `engine`; API and operations URLs."""
    text = (ROOT / "deploy/compose/specserve.yaml").read_text(encoding="utf-8")
    path = folder / "specserve.yaml"
    path.write_text(text.replace("http://engine:30000", engine), encoding="utf-8")
    ports = {"SPECSERVE_GATEWAY__PORT": str(free_port()), "SPECSERVE_GATEWAY__OPS_PORT": str(free_port())}
    args = [{SETTINGS: str(path), "0.0.0.0": "127.0.0.1"}.get(arg, arg) for arg in command]
    program = [sys.executable, "-c", "from service.cli import main; main()", *args]
    with subprocess.Popen(program, cwd=ROOT, env={**os.environ, **ports}, stderr=subprocess.DEVNULL) as process:
        try:
            yield tuple(f"http://127.0.0.1:{port}" for port in ports.values())  # type: ignore[misc]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0


def test_the_gateway_s_command_serves_without_the_gpu(services: dict[str, Any], tmp_path: Path) -> None:
    fake = FakeSGLang()
    with serving(fake.app) as engine, gateway_process(services["gateway"]["command"], tmp_path, engine) as (api, ops):

        def ready() -> bool:
            try:
                return httpx.get(f"{ops}/readyz").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(ready, seconds=20)
        chat = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        answer = httpx.post(f"{api}/v1/chat/completions", json=chat, timeout=20)
        assert answer.status_code == 200
        assert answer.headers["x-specserve-pool"] == "default"
        assert 'pool="default"' in httpx.get(f"{ops}/metrics").text
