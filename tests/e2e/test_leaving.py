"""Clients that leave: SGLang has nothing of them left one second later."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import orjson
import pytest

from tests.e2e.live import MODEL, Service, until

STORY = "Tell me a very long story about a dog and a cat."
LIMIT_SECONDS = 1.0


def leave_after(service: Service, body: dict[str, object], wait_for: bytes | None, seconds: float) -> None:
    """Send a request over a bare socket; close it `seconds` after SGLang has it and `wait_for` arrived."""
    address = urlsplit(service.api)
    payload = orjson.dumps({"model": MODEL, "temperature": 0, "ignore_eos": True, **body})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(payload)}\r\n"
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + payload)
        client.settimeout(30)
        received = b""
        while wait_for is not None and wait_for not in received:
            received += client.recv(65536)
        until(lambda: service.running() > 0, 20, 0.05)
        time.sleep(seconds)
        assert service.running() > 0, "the request had ended before the client left"


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CASES = {
    "mid_prefill": ({"messages": messages("one two three " * 2400), "stream": True, "max_tokens": 400}, None, 0.2),
    "mid_stream": ({"messages": messages(STORY), "stream": True, "max_tokens": 600}, b"content", 0.5),
    "not_streaming": ({"messages": messages(STORY), "max_tokens": 600}, None, 0.7),
    "two_choices": ({"messages": messages(STORY), "max_tokens": 600, "n": 2}, None, 0.7),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_runs_one_second_later(service: Service, case: str) -> None:
    body, wait_for, seconds = CASES[case]
    until(lambda: service.running() == 0, 30)
    leave_after(service, body, wait_for, seconds)
    # What counts is SGLang's own account; asking for it takes a share of the second.
    assert until(lambda: service.running() == 0, LIMIT_SECONDS, 0.05) <= LIMIT_SECONDS
    assert "Paris" in service.chat("What is the capital of France?").json()["choices"][0]["message"]["content"]
