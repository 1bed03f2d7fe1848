"""Both servers in one process: ports, readiness, and the drain on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.wait import wait_until

PROGRAM = """
import sys
from service.api.serve import main
from service.profiles.config import load_config
main(load_config(None, **__import__("json").loads(sys.argv[1])))
"""
BUSY = """
import sys, threading, time
from service.api import serve
from service.profiles.config import load_config
built = serve.create_app
def blocked(config, **options):
    app = built(config, **options)
    @app.get("/block")
    async def block() -> None:
        time.sleep(2)
    return app
serve.create_app = blocked
serve.main(load_config(None, **__import__("json").loads(sys.argv[1])))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def process(
    backend: str, program: str = PROGRAM, drain_s: float = 5
) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """The service as a process, with the URLs of its two ports."""
    port, ops_port = free_port(), free_port()
    config = {
        "gateway": {"port": port, "ops_port": ops_port, "drain_timeout_s": drain_s, "health_interval_s": 0.1},
        "models": [{"name": "smol", "pools": [{"backends": [backend]}]}],
        "log_format": "json",
    }
    root = Path(__file__).parents[2]
    running = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(config)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url, ops = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops_port}"
        wait_until(lambda: _answers(f"{url}/health") and _answers(f"{ops}/readyz"), 20)
        yield running, url, ops
    finally:
        running.kill()
        running.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def test_sigterm_drains_open_streams_and_turns_readiness_off() -> None:
    fake = FakeSGLang(delay=0.1, pieces=["x"] * 15)
    with serving(fake.app) as backend, process(backend) as (running, url, ops):
        assert httpx.get(f"{ops}/livez").json() == {"status": "ok"}
        assert "specserve_requests_total" in httpx.get(f"{ops}/metrics").text
        assert "process_resident_memory_bytes" in httpx.get(f"{url}/metrics").text
        assert httpx.get(f"{ops}/v1/models").json()["error"]["code"] == "not_found"
        body = {"model": "smol", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=20) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            readiness = httpx.get(f"{ops}/readyz")
            assert readiness.status_code == 503
            assert "shutting down" in readiness.json()["reasons"][0]
            assert list(lines)[-2] == "data: [DONE]"
        assert running.wait(timeout=10) == 0


def test_operations_answer_while_the_api_loop_is_blocked() -> None:
    with serving(FakeSGLang().app) as backend, process(backend, BUSY) as (_, url, ops):
        blocker = threading.Thread(target=lambda: httpx.get(f"{url}/block", timeout=10))
        blocker.start()
        time.sleep(0.3)
        start = time.monotonic()
        assert httpx.get(f"{ops}/readyz", timeout=5).status_code == 200
        assert httpx.get(f"{ops}/metrics", timeout=5).status_code == 200
        assert time.monotonic() - start < 1
        blocker.join()


def test_a_stream_that_outlives_the_drain_is_aborted_upstream() -> None:
    fake = FakeSGLang(delay=0.05, pieces=["x"] * 10_000)
    with serving(fake.app) as backend, process(backend, drain_s=1) as (running, url, _):
        body = {"model": "smol", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=20) as answer:
            next(answer.iter_lines())
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=10) == 0
        wait_until(lambda: not fake.running)
        assert fake.aborts


def test_a_taken_port_stops_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name in ("port", "ops_port"):
            ports = {"port": free_port(), "ops_port": free_port(), name: taken.getsockname()[1]}
            command = [sys.executable, "-c", PROGRAM, json.dumps({"gateway": ports})]
            ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=30)
            assert ended.returncode != 0
            assert b"address already in use" in ended.stderr.lower()
