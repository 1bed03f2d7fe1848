"""From a profile to the command that starts stock SGLang with it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.profiles.kv_methods import QUANTIZED_BITS, has_window
from service.profiles.machine import Machine, Role, machine_args
from service.profiles.schema import KvCache, Profile
from service.profiles.speculation_args import draft_attention_args, drafter_names, speculation_args, traits_of
from service.profiles.threads import openmp_env

CPU_ATTENTION_BACKEND = "specserve_cpu"
CPU_PREFILL_TOKENS = 256
"""A piece of a prompt takes about half a second, so that aborts and other requests' tokens get in between."""
CPU_KV_TOKENS = 32768
UNO_ATTENTION_BACKEND = "fa3"
"""The only one that UNO runs on; SGLang's own choice may be another."""
TREE_ATTENTION_BACKEND = "triton"
"""Reads the trees of algorithm `specserve`; SGLang's own choice may take them for chains."""
HOST = "127.0.0.1"

# Holds a package `sgl_kernel` with the operators that PyPI's wheel lacks on a CPU; it must be found first.
_SHIM = Path(__file__).parents[1] / "sglang_plugin" / "shim"
# SGLang's own format leaves the level out, and the launcher forwards lines by level.
_LOGGING = Path(__file__).with_name("engine_logging.json")


@dataclass(frozen=True)
class ModelSource:
    """What SGLang loads: `path` is a folder or hub name; `offline` models need no hub."""

    path: str
    offline: bool = False
    tool_call_parser: str | None = None


@dataclass(frozen=True)
class EngineCommand:
    """Arguments and added environment of one engine process; `env` is sorted by name."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process; our PYTHONPATH goes before the one in `base`."""
        merged = {**base, **dict(self.env)}
        if "PYTHONPATH" in dict(self.env) and base.get("PYTHONPATH"):
            merged["PYTHONPATH"] = os.pathsep.join((dict(self.env)["PYTHONPATH"], base["PYTHONPATH"]))
        return merged

    def shell(self) -> str:
        """One line that can be pasted into a POSIX shell."""
        variables = [f"{name}={_shell_value(name, value)}" for name, value in self.env]
        return " ".join(["env", *variables, shlex.join(self.argv)])


def engine_command(
    profile: Profile,
    *,
    port: int,
    served_name: str,
    target: ModelSource,
    draft: ModelSource | None = None,
    host: str = HOST,
    role: Role = "whole",
    machine: Machine | None = None,
) -> EngineCommand:
    """The command that serves `profile` on `host`:`port`. Starts nothing, reads no file.

    `draft` is the resolved draft model or adapter of algorithms that have one; `machine` matters for profiles with
    several nodes. The profile must have passed `service.profiles.rules.check`.
    """
    cpu = profile.runtime.device == "cpu"
    argv = [sys.executable, "-m", "sglang.launch_server"]
    argv += ["--host", host, "--port", str(port), "--served-model-name", served_name]
    argv += _server_args(profile, target)
    argv += _cpu_args(profile) if cpu else _cuda_args(profile)
    argv += machine_args(profile.runtime.nodes, machine or Machine(), role)
    argv += speculation_args(profile.speculation, target.path, draft.path if draft else None)
    argv += draft_attention_args(profile.speculation, CPU_ATTENTION_BACKEND) if cpu else []
    argv += profile.runtime.extra_args
    # By default every /health generates a token, which takes an idle engine over a second.
    env = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false", "SGLANG_LOGGING_CONFIG_PATH": str(_LOGGING)}
    env |= _plugin_environment(profile) | _eviction_environment(profile.kv) | _selection_environment(profile.kv)
    env |= _quantization_environment(profile.kv)
    if cpu:
        env |= _cpu_environment() | openmp_env(profile.runtime.threads)
    if target.offline and (draft is None or draft.offline):
        env["HF_HUB_OFFLINE"] = "1"
    return EngineCommand(tuple(argv), tuple(sorted(env.items())))


def _server_args(profile: Profile, target: ModelSource) -> list[str]:
    runtime, kv = profile.runtime, profile.kv
    args = ["--model-path", target.path]
    args += ["--device", runtime.device, "--dtype", profile.target.dtype]
    args += ["--max-running-requests", str(runtime.max_running_requests)]
    args += ["--page-size", str(kv.page_size)]
    if chunk := runtime.chunked_prefill_tokens or (CPU_PREFILL_TOKENS if runtime.device == "cpu" else None):
        args += ["--chunked-prefill-size", str(chunk)]
    args += ["--grammar-backend", "xgrammar", "--enable-metrics", "--enable-cache-report", "--sleep-on-idle"]
    args += ["--log-level", "info", "--log-level-http", "warning"]
    if profile.target.context_length is not None:
        args += ["--context-length", str(profile.target.context_length)]
    if profile.target.trust_remote_code:
        args.append("--trust-remote-code")
    if parser := _tool_call_parser(profile, target):
        args += ["--tool-call-parser", parser]
    if kv.dtype not in ("auto", profile.target.dtype):
        args += ["--kv-cache-dtype", kv.dtype]
    if not kv.prefix_cache:
        args.append("--disable-radix-cache")
    return args


def _tool_call_parser(profile: Profile, target: ModelSource) -> str | None:
    wanted = profile.target.tool_call_parser
    return target.tool_call_parser or "auto" if wanted == "auto" else wanted


def _cpu_args(profile: Profile) -> list[str]:
    return [
        *("--attention-backend", profile.runtime.attention_backend or CPU_ATTENTION_BACKEND),
        *("--sampling-backend", "pytorch", "--disable-overlap-schedule"),
        *("--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"),
        *("--max-total-tokens", str(profile.kv.max_tokens or CPU_KV_TOKENS)),
    ]


def _cuda_args(profile: Profile) -> list[str]:
    runtime = profile.runtime
    args = ["--tp-size", str(runtime.tp)]
    if runtime.pp > 1:
        args += ["--pp-size", str(runtime.pp), "--disable-overlap-schedule"]
    if runtime.attention_dp > 1:
        args += ["--attn-dp-size", str(runtime.attention_dp)]
        args += ["--enable-dp-lm-head"] if traits_of(profile.speculation).attention_dp == "with dp lm head" else []
    usual = {"uno": UNO_ATTENTION_BACKEND, "specserve": TREE_ATTENTION_BACKEND}.get(profile.speculation.algorithm)
    if backend := runtime.attention_backend or usual:
        args += ["--attention-backend", backend]
    if profile.kv.max_tokens is not None:
        args += ["--max-total-tokens", str(profile.kv.max_tokens)]
    return args


def _plugin_environment(profile: Profile) -> dict[str, str]:
    spec = profile.speculation
    if spec.algorithm == "specserve":
        settings = {
            "drafters": drafter_names(spec),
            "controllers": spec.controllers,
            "options": spec.drafter_options,
            "controller_options": spec.controller_options,
            "sharing": spec.sharing,
            "accept": spec.accept,
            "accept_options": spec.accept_options,
        }
        return {"SPECSERVE_SPECULATION": json.dumps(settings)}
    if spec.algorithm != "none" and profile.runtime.pp > 1:
        # Without it SGLang keeps speculation over several stages to prefill nodes.
        return {"SGLANG_ENABLE_PP_SPEC": "1"}
    return {}


def eviction_settings(kv: KvCache) -> dict[str, Any]:
    """What the engine is told about eviction; `options` are the policy's parameters."""
    return {
        "policy": kv.eviction,
        "budget": kv.budget,
        "interval": kv.eviction_interval,
        "options": {"sinks": kv.sinks, "recent": kv.window, **kv.eviction_options},
    }


def _eviction_environment(kv: KvCache) -> dict[str, str]:
    return {} if kv.eviction == "none" else {"SPECSERVE_KV_EVICTION": json.dumps(eviction_settings(kv))}


def _selection_environment(kv: KvCache) -> dict[str, str]:
    if kv.selector == "none":
        return {}
    settings = {
        "selector": kv.selector,
        "tokens": kv.selector_tokens,
        "page": kv.selector_page,
        "options": kv.selector_options,
    }
    return {"SPECSERVE_KV_SELECTION": json.dumps(settings)}


def _quantization_environment(kv: KvCache) -> dict[str, str]:
    if kv.quantization == "none":
        return {}
    settings: dict[str, Any] = {
        "bits": QUANTIZED_BITS[kv.quantization],
        "group": kv.group_size,
        "rotation": kv.rotation,
    }
    if kv.calibration is not None:
        settings["calibration"] = os.path.abspath(kv.calibration)
    if has_window(kv):
        settings |= {"sinks": kv.full_sinks, "recent": kv.full_recent}
    return {"SPECSERVE_KV_QUANTIZATION": json.dumps(settings)}


def _cpu_environment() -> dict[str, str]:
    # SGLang decorates small functions with torch.compile, which costs 20 s at the first request on a CPU.
    return {"PYTHONPATH": str(_SHIM), "SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1"}


def _shell_value(name: str, value: str) -> str:
    if name == "PYTHONPATH":
        return f"{shlex.quote(value)}${{PYTHONPATH:+:$PYTHONPATH}}"
    return shlex.quote(value)
