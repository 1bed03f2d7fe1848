"""The whole service as its users start it: `specserve serve` with a real SGLang engine, as child processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

MODEL = "smollm2-135m-instruct"
START_SECONDS = 400
CONFIG = """
models:
  - name: smollm2-135m-instruct
    pools:
      - name: default
        profile:
          runtime:
            # SGLang publishes its load after every step, not after every few, so that tests see it at once.
            extra_args: [--load-snapshot-publish-interval, "1"]
"""


@dataclass(frozen=True)
class Service:
    """Addresses of a running service."""

    api: str
    ops: str
    engine: str
    pid: int

    def chat(self, text: str, *, headers: dict[str, str] | None = None, **fields: object) -> httpx.Response:
        """One greedy chat request of at most 32 tokens unless `fields` say otherwise."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 32, "temperature": 0}
        return httpx.post(f"{self.api}/v1/chat/completions", json=body | fields, headers=headers, timeout=120)

    def running(self) -> int:
        """Requests that SGLang has, running or waiting, by its own account."""
        load = httpx.get(f"{self.engine}/v1/loads", timeout=10).json()
        # A request in the middle of a chunked prefill is neither running nor waiting, but its tokens are.
        return sum(
            rank["num_running_reqs"] + rank["num_waiting_reqs"] + (rank["num_waiting_uncached_tokens"] > 0)
            for rank in load["loads"]
        )

    def samples(self) -> dict[str, float]:
        """`/metrics` as a mapping from `name{labels}` to value."""
        lines = httpx.get(f"{self.api}/metrics", timeout=10).text.splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] not in "#")}


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float, pause: float = 0.1) -> float:
    """Wait for a condition; the seconds it took. AssertionError after `seconds`."""
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        assert time.monotonic() - start < seconds, f"still not so after {seconds} s"
        time.sleep(pause)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def running_service(log: Path, **environment: str) -> Iterator[Service]:
    """Start the service with its default model and algorithm, wait until it is ready, stop it, and see nothing left.

    `log` is the file for its output; the configuration is written beside it.
    """
    api, ops, engine = free_port(), free_port(), free_port()
    settings = {
        "SPECSERVE_GATEWAY__PORT": str(api),
        "SPECSERVE_GATEWAY__OPS_PORT": str(ops),
        "SPECSERVE_ENGINE__FIRST_PORT": str(engine),
    }
    config = log.with_name("config.yaml")
    config.write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("specserve")), "serve", "--config", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | settings | environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            until(lambda: process.poll() is not None or _ready(f"http://127.0.0.1:{ops}"), START_SECONDS, 0.5)
            assert process.poll() is None, log.read_text()[-4000:]
            yield Service(*(f"http://127.0.0.1:{port}" for port in (api, ops, engine)), process.pid)
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            _, alive = psutil.wait_procs(family, timeout=5)
            left = [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]
            assert not left, f"the service left processes behind: {left}"
        finally:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
                process.wait(30)
