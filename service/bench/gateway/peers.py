"""The gateways that are compared: how each is installed and started."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from service.bench.gateway.plan import MODEL

HOST = "127.0.0.1"
_INSTALL_S = 900


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway finds its backend and may listen; `folder` takes its configuration."""

    backend: str
    port: int
    spare_port: int
    folder: Path


@dataclass(frozen=True)
class Peer:
    """A gateway from a package registry. `command` takes the environment's folder of programs and the place."""

    name: str
    requirement: str
    command: Callable[[Path, Place], list[str]]
    env: dict[str, str] = field(default_factory=dict)


def own_command(place: Place) -> list[str]:
    """Our gateway with what it does in production: accounting, metrics, health checks, a log line a request."""
    config = place.folder / "specserve.yaml"
    pools = [{"name": "default", "backends": [place.backend], "profile": {"speculation": {"algorithm": "specserve"}}}]
    tree = {
        "gateway": {"host": HOST, "port": place.port, "ops_port": place.spare_port},
        "models": [{"name": MODEL, "pools": pools}],
        "log_format": "json",
    }
    config.write_text(json.dumps(tree, indent=2), encoding="utf-8")
    return [sys.executable, "-c", "from service.cli import main; main()", "gateway", "--config", str(config)]


def _rust_router(program: tuple[str, ...]) -> Callable[[Path, Place], list[str]]:
    def command(bin_folder: Path, place: Place) -> list[str]:
        own = ["--host", HOST, "--port", str(place.port), "--worker-urls", place.backend, "--policy", "round_robin"]
        metrics = ["--prometheus-host", HOST, "--prometheus-port", str(place.spare_port)]
        return [str(bin_folder / program[0]), *program[1:], *own, *metrics]

    return command


def _litellm(bin_folder: Path, place: Place) -> list[str]:
    config = place.folder / "litellm.yaml"
    params = {"model": f"openai/{MODEL}", "api_base": f"{place.backend}/v1", "api_key": "sk-bench"}
    config.write_text(json.dumps({"model_list": [{"model_name": MODEL, "litellm_params": params}]}), encoding="utf-8")
    return [
        *(str(bin_folder / "litellm"), "--config", str(config), "--host", HOST, "--port", str(place.port)),
        *("--num_workers", "1", "--telemetry", "False"),
    ]


PEERS = (
    Peer(
        "sglang-router",
        "sglang-router==0.3.2",
        _rust_router(("python", "-m", "sglang_router.launch_router")),
    ),
    Peer("smg", "smg==1.13.0", _rust_router(("smg", "launch"))),
    Peer("vllm-router", "vllm-router==0.1.17", _rust_router(("vllm-router",))),
    Peer(
        "litellm",
        "litellm[proxy]==1.108.7",
        _litellm,
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"},
    ),
)


def environment(cache: Path, peer: Peer) -> Path:
    """Where the peer's own virtual environment lies."""
    return cache / "peers" / peer.requirement.replace("[", "-").replace("]", "").replace("==", "-")


def install(cache: Path, peer: Peer) -> str | None:
    """Make the peer's environment unless it is there; why it cannot be made, None when it was. Blocks for minutes."""
    folder = environment(cache, peer)
    ready = folder / "ready"
    if ready.is_file():
        return None
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        subprocess.run([*pip, "--no-cache-dir", peer.requirement], check=True, capture_output=True, timeout=_INSTALL_S)
    except subprocess.CalledProcessError as error:
        return f"{peer.requirement} cannot be installed: {_last_line(error.stderr)}"
    except subprocess.TimeoutExpired:
        return f"{peer.requirement} was not installed in {_INSTALL_S} s"
    ready.touch()
    return None


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else "pip said nothing"
