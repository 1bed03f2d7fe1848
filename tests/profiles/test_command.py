from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.profiles.command import EngineCommand, ModelSource, engine_command
from service.profiles.schema import Profile
from tests.profiles.profiles import POSSIBLE, profile, with_draft

PARSER = Path(__file__).with_name("parse_with_sglang.py")


def command(of: Profile, target: ModelSource | None = None) -> EngineCommand:
    source = target or ModelSource("/models/target", offline=True)
    draft = ModelSource("/models/draft", offline=True) if of.speculation.draft_model else None
    return engine_command(of, port=30001, served_name="m", target=source, draft=draft)


def value(argv: tuple[str, ...], flag: str) -> str | None:
    return argv[argv.index(flag) + 1] if flag in argv else None


def test_default_profile_runs_our_algorithm_on_our_operators() -> None:
    built = command(Profile())
    env = dict(built.env)
    assert built.argv[:3] == (sys.executable, "-m", "sglang.launch_server")
    assert value(built.argv, "--attention-backend") == "specserve_cpu"
    assert value(built.argv, "--speculative-algorithm") == "SPECSERVE"
    assert value(built.argv, "--speculative-num-draft-tokens") == "12"
    assert value(built.argv, "--host") == "127.0.0.1"
    assert env["SPECSERVE_DRAFTER"] == "prompt_lookup"
    assert env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert (Path(env["PYTHONPATH"]) / "sgl_kernel" / "__init__.py").is_file()
    assert Path(env["SGLANG_LOGGING_CONFIG_PATH"]).is_file()


def test_plain_profile_has_no_speculation() -> None:
    built = command(POSSIBLE["plain"])
    assert not [arg for arg in built.argv if "speculative" in arg]
    assert "SPECSERVE_DRAFTER" not in dict(built.env)


@pytest.mark.parametrize(
    ("speculation", "steps"),
    [
        (with_draft("standalone", draft_tokens=4), "3"),
        (with_draft("standalone", draft_tokens=2), "1"),
        (with_draft("standalone", draft_tokens=6, topk=2), "3"),
        (with_draft("standalone", draft_tokens=12, topk=2), "4"),
        (with_draft("standalone", draft_tokens=6, topk=2, steps=2), "2"),
    ],
)
def test_draft_steps_yield_the_tokens(speculation: dict[str, object], steps: str) -> None:
    argv = command(profile(speculation=speculation)).argv
    assert value(argv, "--speculative-num-steps") == steps
    assert value(argv, "--speculative-draft-model-path") == "/models/draft"
    assert value(argv, "--speculative-draft-attention-backend") == "specserve_cpu"


def test_missing_draft_model_is_an_error() -> None:
    broken = profile(speculation=with_draft("eagle"))
    with pytest.raises(ValueError, match="needs a draft model"):
        engine_command(broken, port=1, served_name="m", target=ModelSource("t"))


def test_gpu_profile_is_stock_sglang() -> None:
    built = command(POSSIBLE["gpu_plain_fp8"], ModelSource("org/model"))
    assert not {"PYTHONPATH", "SGLANG_USE_CPU_ENGINE", "HF_HUB_OFFLINE", "GOMP_SPINCOUNT"} & set(dict(built.env))
    assert value(built.argv, "--kv-cache-dtype") == "fp8_e4m3"
    assert value(built.argv, "--attention-backend") == "fa3"
    assert "--disable-overlap-schedule" not in built.argv


@pytest.mark.parametrize(
    ("wanted", "models_own", "given"),
    [
        ("auto", "hermes", "hermes"),
        ("auto", None, "auto"),
        ("qwen", "hermes", "qwen"),
        (None, "hermes", None),
    ],
)
def test_tool_call_parser(wanted: str | None, models_own: str | None, given: str | None) -> None:
    of = profile(target={"tool_call_parser": wanted})
    assert value(command(of, ModelSource("t", tool_call_parser=models_own)).argv, "--tool-call-parser") == given


def test_hub_is_reachable_only_for_hub_names() -> None:
    assert dict(command(Profile()).env)["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in dict(command(Profile(), ModelSource("org/model")).env)


def test_environment_goes_before_the_inherited_path() -> None:
    built = EngineCommand(("x",), (("PYTHONPATH", "/ours"), ("A", "1")))
    assert built.environment({"PYTHONPATH": "/theirs", "B": "2"}) == {
        "PYTHONPATH": f"/ours{os.pathsep}/theirs",
        "A": "1",
        "B": "2",
    }
    assert built.environment({})["PYTHONPATH"] == "/ours"


def test_shell_line_runs_as_printed() -> None:
    script = "import os, sys; print(os.environ['PYTHONPATH'], os.environ['A'], *sys.argv[1:])"
    built = EngineCommand(
        (sys.executable, "-c", script, "two words", '{"a": 1}'), (("A", "it's"), ("PYTHONPATH", "/ours"))
    )
    shell = subprocess.run(
        ["sh", "-c", built.shell()], env={**os.environ, "PYTHONPATH": "/x"}, capture_output=True, text=True
    )
    assert shell.stdout == '/ours:/x it\'s two words {"a": 1}\n'


def test_threads_reach_openmp() -> None:
    assert dict(command(profile(runtime={"threads": 3})).env)["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in dict(command(Profile()).env)


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="sglang is not installed")
def test_sglang_knows_every_argument() -> None:
    commands = {name: command(of) for name, of in POSSIBLE.items()}
    environment = commands["default"].environment(os.environ)
    parsed = subprocess.run(
        [sys.executable, str(PARSER)],
        input=json.dumps({name: built.argv[3:] for name, built in commands.items()}),
        env={**environment, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    answers = json.loads(parsed.stdout.splitlines()[-1])
    assert answers.keys() == POSSIBLE.keys()
    for name, args in answers.items():
        assert args["port"] == 30001
        assert args["served_model_name"] == "m"
        assert args["dtype"] == POSSIBLE[name].target.dtype
        assert args["max_running_requests"] == POSSIBLE[name].runtime.max_running_requests
