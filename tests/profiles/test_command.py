from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from service.profiles.algorithms import TRAITS
from service.profiles.command import EngineCommand, ModelSource, engine_command
from service.profiles.machine import Machine, Role
from service.profiles.schema import Algorithm, Profile
from service.profiles.speculation_args import deepest_draft, drafter_names
from tests.profiles.impossible import IMPOSSIBLE
from tests.profiles.profiles import POSSIBLE, UNO, gpu, profile, with_draft

PARSER = Path(__file__).with_name("parse_with_sglang.py")


def command(of: Profile, target: ModelSource | None = None) -> EngineCommand:
    source = target or ModelSource("/models/target", offline=True)
    names_draft = of.speculation.draft_model or of.speculation.adapter
    draft = ModelSource("/models/draft", offline=True) if names_draft else None
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
    assert env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert (Path(env["PYTHONPATH"]) / "sgl_kernel" / "__init__.py").is_file()
    assert Path(env["SGLANG_LOGGING_CONFIG_PATH"]).is_file()


def test_plain_profile_has_no_speculation() -> None:
    built = command(POSSIBLE["plain"])
    assert not [arg for arg in built.argv if "speculative" in arg]
    assert "SPECSERVE_SPECULATION" not in dict(built.env)


def test_our_settings_reach_the_engine_as_one_variable() -> None:
    env = dict(command(POSSIBLE["several_drafters"]).env)
    assert json.loads(env["SPECSERVE_SPECULATION"]) == {
        "drafters": ["suffix", "prompt_lookup"],
        "controllers": ["roofline", "ucb"],
        "options": {"suffix": {"longest": 32, "decay": 0.5, "prompt": True}},
        "sharing": "pool",
        "accept": "strict",
        "accept_options": {},
        "controller_options": {},
    }
    usual = json.loads(dict(command(Profile()).env)["SPECSERVE_SPECULATION"])
    assert usual["drafters"] == ["goose"] and usual["controllers"] == ["roofline", "dcut", "fixed"]
    assert (usual["options"], usual["sharing"], usual["accept"]) == ({}, "request", "strict")
    assert drafter_names(POSSIBLE["plain"].speculation) == ()


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


@pytest.mark.parametrize(
    ("speculation", "steps"),
    [
        ({**UNO, "draft_tokens": 16, "topk": 4}, "5"),
        ({**UNO, "draft_tokens": 4, "topk": 8}, "3"),
        ({**UNO, "draft_tokens": 8, "topk": 2, "steps": 5}, "5"),
    ],
)
def test_uno_trees_have_steps(speculation: dict[str, object], steps: str) -> None:
    argv = command(gpu(speculation)).argv
    assert value(argv, "--speculative-num-steps") == steps
    assert value(argv, "--uno-lora-path") == "/models/draft"
    assert value(argv, "--attention-backend") == "fa3"
    assert "--speculative-draft-model-path" not in argv


def test_chains_of_one_pass_have_no_steps() -> None:
    for name in ("gpu_uno", "gpu_dflash", "gpu_dspark"):
        assert "--speculative-num-steps" not in command(POSSIBLE[name]).argv


def test_own_heads_are_drafts_from_the_target() -> None:
    assert value(command(POSSIBLE["gpu_nextn_heads"]).argv, "--speculative-draft-model-path") == "/models/target"
    assert value(command(POSSIBLE["gpu_nextn_draft"]).argv, "--speculative-draft-model-path") == "/models/draft"
    assert "--speculative-draft-model-path" not in command(POSSIBLE["gpu_dspark_heads"]).argv


def test_attention_groups_and_stages() -> None:
    groups = command(POSSIBLE["gpu_dflash_groups"])
    assert value(groups.argv, "--attn-dp-size") == "2"
    assert "--enable-dp-lm-head" in groups.argv
    assert "--enable-dp-lm-head" not in command(POSSIBLE["gpu_nextn_heads"]).argv
    stages = command(POSSIBLE["gpu_eagle_stages"])
    assert value(stages.argv, "--pp-size") == "2"
    assert "--disable-overlap-schedule" in stages.argv
    assert dict(stages.env)["SGLANG_ENABLE_PP_SPEC"] == "1"
    assert "SGLANG_ENABLE_PP_SPEC" not in dict(command(POSSIBLE["gpu_plain_stages"]).env)


@pytest.mark.parametrize(
    ("name", "deepest"),
    [("default", 11), ("gpu_dflash", 15), ("gpu_eagle_adaptive", 7), ("gpu_uno", 7), ("gpu_uno_tree", 5)],
)
def test_deepest_draft(name: str, deepest: int) -> None:
    assert deepest_draft(POSSIBLE[name].speculation) == deepest


def test_every_algorithm_has_a_possible_profile() -> None:
    assert {of.speculation.algorithm for of in POSSIBLE.values()} == set(TRAITS) == set(get_args(Algorithm))


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


def test_our_trees_on_a_gpu_are_read_by_a_backend_that_can() -> None:
    built = command(POSSIBLE["gpu_specserve"])
    assert value(built.argv, "--attention-backend") == "triton"
    named = gpu({"drafter": "suffix"}, attention_backend="flashinfer")
    assert value(command(named).argv, "--attention-backend") == "flashinfer"


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


def ask_sglang(commands: dict[str, EngineCommand]) -> dict[str, dict[str, Any]]:
    environment = command(Profile()).environment(os.environ)
    parsed = subprocess.run(
        [sys.executable, str(PARSER)],
        input=json.dumps({name: built.argv[3:] for name, built in commands.items()}),
        env={**environment, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    answers: dict[str, dict[str, Any]] = json.loads(parsed.stdout.splitlines()[-1])
    return answers


# name in IMPOSSIBLE -> part of what SGLang says at start, for profiles whose command can be written at all
SGLANG_REFUSES = {
    "uno_tp": "TP=PP=1",
    "uno_backend": "requires FA3",
    "uno_tree_too_small": "parent-list",
    "uno_tree_too_wide": "Q*K <= 2048",
    "uno_tree_too_deep": "Q >= F",
    "dflash_on_cpu": "not supported",
    "adaptive_tree": "only topk=1",
    "adaptive_groups": "attention DP",
    "adaptive_ngram": "only EAGLE/EAGLE3",
    "adaptive_width": "candidate_steps",
    "stages_without_eagle": "only supports EAGLE",
    "stages_and_groups": "attention DP",
    "groups_of_ngram": "does not support dp attention",
    "ngram_pages": "only supported for the 'flashinfer'",
    "paged_tree_on_a_chain_backend": "page_size > 1 is only supported",
    "chain_backend_tree_mha": "only supports topk = 1",
}


# role -> machines, place among them, where they meet, and the mode, as SGLang reads them
PLACES: dict[Role, tuple[int, int, str, str]] = {
    "whole": (2, 1, "first:20000", "null"),
    "prefill": (2, 1, "first:20000", "prefill"),
    "decode": (2, 1, "first:20000", "decode"),
}


def placed(role: Role) -> EngineCommand:
    return engine_command(
        gpu(with_draft("eagle3", draft_tokens=4), tp=16, nodes=2),
        port=1,
        served_name="m",
        target=ModelSource("t"),
        draft=ModelSource("d"),
        role=role,
        machine=Machine(1, "first:20000"),
    )


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="sglang is not installed")
def test_sglang_reads_every_command_and_agrees() -> None:
    impossible = {f"impossible {name}": command(IMPOSSIBLE[name][0]) for name in SGLANG_REFUSES}
    several = {f"as {role}": placed(role) for role in PLACES}
    answers = ask_sglang({name: command(of) for name, of in POSSIBLE.items()} | impossible | several)
    for role, expected in PLACES.items():
        answer = answers[f"as {role}"]
        shown = [answer[name] for name in ("nnodes", "node_rank", "dist_init_addr", "disaggregation_mode", "refusal")]
        assert shown == [*expected, None]
    for name, of in POSSIBLE.items():
        args = answers[name]
        assert args["refusal"] is None, (name, args["refusal"])
        assert (args["port"], args["served_model_name"]) == (30001, "m")
        assert args["dtype"] == of.target.dtype
        assert args["max_running_requests"] == of.runtime.max_running_requests
        assert (args["tp_size"], args["pp_size"], args["attn_dp_size"]) == (
            of.runtime.tp,
            of.runtime.pp,
            of.runtime.attention_dp,
        )
        assert args["speculative_algorithm"] == TRAITS[of.speculation.algorithm].sglang
    for name, words in SGLANG_REFUSES.items():
        assert words in str(answers[f"impossible {name}"]["refusal"]), (name, answers[f"impossible {name}"])


def test_eviction_reaches_the_plugin() -> None:
    assert "SPECSERVE_KV_EVICTION" not in dict(command(Profile()).env)
    env = dict(command(POSSIBLE["eviction"]).env)
    assert json.loads(env["SPECSERVE_KV_EVICTION"]) == {
        "policy": "snapkv",
        "budget": 256,
        "interval": 32,
        "options": {"sinks": 4, "recent": 32, "kernel": 5},
    }


def test_selection_reaches_the_plugin() -> None:
    assert "SPECSERVE_KV_SELECTION" not in dict(command(Profile()).env)
    env = dict(command(POSSIBLE["selection"]).env)
    assert json.loads(env["SPECSERVE_KV_SELECTION"]) == {"selector": "quest", "tokens": 256, "page": 16, "options": {}}
