"""The service under test: started for one run, watched, stopped by its process group."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import psutil
import yaml

READY_S = 600.0
_STOP_S = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its addresses, its processes, and the tenants' keys."""

    url: str
    operations: str
    engine: str
    gateway_pid: int
    engine_pid: int
    keys: Mapping[str, str]

    def metrics(self) -> str:
        """The gateway's page for Prometheus. Blocks; raises OSError."""
        return _get(f"{self.operations}/metrics")


@contextmanager
def running(folder: Path, config: Path | None, tenants: Sequence[str]) -> Iterator[Service]:
    """`specserve serve` on free ports, its output in `folder/service.log`; ready when it is given.

    `config` is a file of settings with one local engine, None: the default model. Raises RuntimeError when the service
    ends or is not ready in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, operations, engine = (free_port() for _ in range(3))
    keys = {tenant: f"sk-load-{token_hex(16)}" for tenant in tenants}
    env = {
        "SPECSERVE_GATEWAY__PORT": str(port),
        "SPECSERVE_GATEWAY__OPS_PORT": str(operations),
        "SPECSERVE_ENGINE__FIRST_PORT": str(engine),
        "SPECSERVE_LOG_FORMAT": "json",
    }
    if keys:
        env["SPECSERVE_GATEWAY__API_KEYS"] = str(_key_file(folder / "keys.yaml", keys))
    settings = ("--config", str(config)) if config else ()
    command = [str(Path(sys.executable).with_name("specserve")), "serve", *settings]
    with started("service", command, folder, env) as process:
        _wait_ready(process, f"http://127.0.0.1:{operations}/readyz", folder / "service.log")
        children = psutil.Process(process.pid).children()
        if not children:
            raise RuntimeError("the service started no engine of its own; load tests need one local pool")
        yield Service(
            f"http://127.0.0.1:{port}",
            f"http://127.0.0.1:{operations}",
            f"http://127.0.0.1:{engine}",
            process.pid,
            children[0].pid,
            keys,
        )


@contextmanager
def started(
    name: str, command: Sequence[str], folder: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, output in `folder/NAME.log`; the group is ended with the block."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env},
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with status {process.returncode}; see {log}")
        with suppress(OSError):
            _get(url)
            return
        time.sleep(0.25)
    raise RuntimeError(f"the service was not ready in {READY_S:.0f} s; see {log}")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _key_file(path: Path, keys: Mapping[str, str]) -> Path:
    entries = [{"tenant": tenant, "hash": f"sha256:{sha256(key.encode()).hexdigest()}"} for tenant, key in keys.items()]
    path.write_text(yaml.safe_dump({"keys": entries}), encoding="utf-8")
    return path.resolve()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
