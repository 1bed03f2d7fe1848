"""The engine dies in the middle of a stream: the client is told, and the launcher brings the engine back.

Last by name: the tests before it need the same engine.
"""

from __future__ import annotations

import json

import httpx
import psutil

from tests.e2e.live import MODEL, Service, until


def scheduler_of(service: Service) -> psutil.Process:
    """SGLang's scheduler process, the one that computes."""
    for child in psutil.Process(service.pid).children(recursive=True):
        if "scheduler" in " ".join(child.cmdline()) or "scheduler" in child.name():
            return child
    raise AssertionError("no scheduler process")


def test_killed_mid_stream(service: Service) -> None:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Tell me a very long story."}],
        "max_tokens": 600,
        "stream": True,
        "ignore_eos": True,
    }
    received = ""
    with httpx.stream("POST", f"{service.api}/v1/chat/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        for text in response.iter_text():
            if received.count("data: ") < 5 <= (received + text).count("data: "):
                scheduler_of(service).kill()
            received += text
    events = [line[6:] for line in received.splitlines() if line.startswith("data: ")]
    error = json.loads(events[-1])["error"]
    assert error["message"] and error["type"] == "server_error"

    until(lambda: httpx.get(f"{service.ops}/readyz").status_code == 503, 30)
    until(lambda: httpx.get(f"{service.ops}/readyz").status_code == 200, 200, 0.5)
    assert "Paris" in service.chat("What is the capital of France?").json()["choices"][0]["message"]["content"]
