from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = ["serve", "gateway", "engine", "check", "methods", "models", "bench"]


def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPECSERVE_")}
    return subprocess.run(
        [sys.executable, "-c", "from service.cli import main; main()", *args],
        cwd=ROOT,
        env={**env, "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def bad_config(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "gateway: {api_key: s3cret}\n"
        "models: [{pools: [{profile: {speculation: {algorithm: standalone}, runtime: {tp: 2}}}]}]\n"
    )
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_everywhere(command: str) -> None:
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert command in shown.stdout


def test_help_shows_the_settings_defaults() -> None:
    shown = run("serve", "--help").stdout
    assert "(default: 8000)" in re.sub(r"[│\s]+", " ", shown)


def test_check_prints_settings_and_the_command() -> None:
    checked = run("check")
    assert checked.returncode == 0, checked.stderr
    assert "algorithm: specserve" in checked.stdout
    assert "-m sglang.launch_server" in checked.stdout
    assert "--speculative-algorithm SPECSERVE" in checked.stdout


def test_check_names_every_fault_and_hides_secrets(bad_config: str) -> None:
    checked = run("check", bad_config)
    assert checked.returncode == 2
    assert "speculation.draft_model: algorithm standalone needs a draft model" in checked.stdout
    assert "runtime.tp" in checked.stdout
    assert "s3cret" not in checked.stdout + checked.stderr


def test_check_as_json(bad_config: str) -> None:
    good = json.loads(run("check", "--json").stdout)
    assert good["ok"] is True
    assert good["pools"][0]["command"]["argv"][1:3] == ["-m", "sglang.launch_server"]
    assert '"drafters": ["goose"]' in good["pools"][0]["command"]["env"]["SPECSERVE_SPECULATION"]
    bad = json.loads(run("check", bad_config, "--json").stdout)
    assert bad["ok"] is False
    assert bad["pools"][0]["command"] is None
    assert bad["settings"]["gateway"]["api_key"] == "**********"


def test_check_and_methods_load_no_engine() -> None:
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom service.cli import app\n"
        "for args in (['check'], ['methods'], ['serve', '--help']): CliRunner().invoke(app, args)\n"
        "sys.exit(bool({'torch', 'sglang', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


def test_methods_lists_names() -> None:
    listed = json.loads(run("methods", "--json").stdout)
    assert {"none", "specserve", "ngram"} <= set(listed["algorithms"])
    assert {"none", "prompt_lookup"} <= set(listed["drafters"])
    assert "fixed" in listed["controllers"]
    assert "prompt_lookup" in run("methods").stdout


@pytest.mark.parametrize(
    ("args", "environment", "sentence"),
    [
        (["check", "/no/such.yaml"], {}, "no configuration file at /no/such.yaml"),
        (["check"], {"SPECSERVE_GATEWAY__PORT": "high"}, "gateway.port: Input should be a valid integer"),
        (["serve", "--port", "70000"], {}, "gateway.port: Input should be less than or equal to 65535"),
        (["engine", "--pool", "odd"], {}, "there is no pool 'odd'; pools: default"),
        (["models", "verify", "odd"], {}, "'odd' is not a packaged model"),
        (["models", "truncate", "/tmp/x", "--drop", "a"], {}, "--drop takes layer numbers"),
    ],
)
def test_errors_are_one_sentence(args: list[str], environment: dict[str, str], sentence: str) -> None:
    failed = run(*args, **environment)
    assert failed.returncode == 2
    assert sentence in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_serve_refuses_a_bad_profile_before_it_starts(bad_config: str) -> None:
    failed = run("serve", "--config", bad_config)
    assert failed.returncode == 2
    assert "pool default: runtime.tp: a CPU engine is one process" in failed.stderr


@pytest.mark.parametrize("which", ["--port", "--ops-port"])
def test_serve_refuses_a_busy_port(which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed = run("serve", which, port)
    assert failed.returncode == 2
    assert f"port {port} on 127.0.0.1 is not free" in failed.stderr


def test_readme_tables_are_fresh() -> None:
    from service.cli_reference import rewrite

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == rewrite(readme), "run `make docs`"
