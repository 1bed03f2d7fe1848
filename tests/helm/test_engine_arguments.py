"""Engines start with exactly what `specserve check` prints for the release's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service import cli
from service.engine.plan import EnginePlan
from service.profiles.command import EngineCommand
from tests.helm.chart import EXAMPLES, Object, engines_of, environment, settings_of

ROLES = dict.fromkeys(EXAMPLES, ("whole",)) | {"pd-disaggregation": ("decode", "prefill")}


def run(args: list[str], variables: dict[str, str]) -> Any:
    done = CliRunner().invoke(cli.app, args, env=variables, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[EnginePlan]:
    """What `specserve engine` would start; nothing is started and no model prepared."""
    plans: list[EnginePlan] = []

    def note(given: tuple[EnginePlan, ...], *_: Any) -> None:
        plans.extend(given)

    monkeypatch.setattr(cli, "run_beside", note)
    monkeypatch.setattr(cli, "_run", lambda _: None)
    monkeypatch.setattr(cli, "_prepare", lambda plans, store: None)
    return plans


def as_in_a_pod(container: Object, config: Path, machine: int) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables of a container, with what Kubernetes and the LeaderWorkerSet put into them."""
    given = {"$(LWS_LEADER_ADDRESS)": "demo-0.demo.llm", "$(LWS_WORKER_INDEX)": str(machine)}
    variables = environment(container)
    for placeholder, value in given.items():
        variables = {name: text.replace(placeholder, value) for name, text in variables.items()}
    args = [str(config) if arg == "/etc/specserve/specserve.yaml" else arg for arg in container["args"]]
    return args, variables


@pytest.mark.parametrize("name", EXAMPLES)
def test_pods_start_what_check_prints(
    releases: dict[str, list[Object]], name: str, started: list[EnginePlan], tmp_path: Path
) -> None:
    config = tmp_path / "specserve.yaml"
    config.write_text(settings_of(releases[name]), encoding="utf-8")
    containers = engines_of(releases[name])
    assert containers
    seen = []
    for container in containers.values():
        for machine in range(2 if name == "multi-node-tp16" else 1):
            args, variables = as_in_a_pod(container, config, machine)
            started.clear()
            run(args, variables)
            (plan,) = started
            role = args[args.index("--role") + 1] if "--role" in args else "whole"
            printed = json.loads(run(["check", str(config), "--json"], variables))
            assert printed["ok"]
            (shown,) = (pool for pool in printed["pools"] if (pool["pool"], pool["role"]) == (plan.pool, role))
            assert list(plan.command.argv) == shown["command"]["argv"]
            assert dict(plan.command.env) == shown["command"]["env"]
            assert reachable(plan.command)
            seen.append(role)
    assert set(seen) == set(ROLES[name])


def reachable(command: EngineCommand) -> bool:
    """Whether other pods reach the engine where the Service and the probes look."""
    argv = command.argv
    return argv[argv.index("--host") + 1] == "0.0.0.0" and argv[argv.index("--port") + 1] == "30000"


def test_every_machine_of_an_engine_knows_its_place(
    releases: dict[str, list[Object]], started: list[EnginePlan], tmp_path: Path
) -> None:
    config = tmp_path / "specserve.yaml"
    config.write_text(settings_of(releases["multi-node-tp16"]), encoding="utf-8")
    (container,) = engines_of(releases["multi-node-tp16"]).values()
    places = []
    for machine in range(2):
        run(*as_in_a_pod(container, config, machine))
        argv = started[-1].command.argv
        places.append(argv[argv.index("--nnodes") :][:6])
    flags = ("--nnodes", "2", "--node-rank", "{}", "--dist-init-addr", "demo-0.demo.llm:20000")
    assert places == [tuple(flag.format(machine) for flag in flags) for machine in range(2)]
