"""A client that leaves ends the generation upstream within a second, wherever it leaves."""

from __future__ import annotations

import socket
import time
from typing import Any

import orjson
import pytest

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack
from tests.doubles.wait import wait_until

DRAFT = {"model": MODEL, "pool": "default", "algorithm": "specserve", "draft": "goose"}


def open_request(stack: Stack, path: str = "/v1/chat/completions", **extra: Any) -> socket.socket:
    """Send a request by hand and leave the connection open."""
    body = orjson.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **extra})
    host, port = stack.url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)))
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def aborted(stack: Stack) -> float | None:
    return stack.metric("specserve_requests_total", model=MODEL, pool="default", outcome="aborted")


@pytest.mark.parametrize("stream", [True, False])
def test_before_the_first_token(stream: bool) -> None:
    with running_stack({"default": [FakeSGLang(ttft=30)]}) as stack:
        client = open_request(stack, stream=stream)
        wait_until(lambda: bool(stack.fake.running))
        client.close()
        assert wait_until(lambda: not stack.fake.running) < 1
        assert stack.fake.aborts[0] == stack.fake.bodies[0]["rid"]
        wait_until(lambda: aborted(stack) == 1)
        assert stack.metric("specserve_spec_decode_num_drafts_total", **DRAFT) is None
        assert stack.metric("specserve_spec_decode_aborted_num_drafts_total", **DRAFT) is None


@pytest.mark.parametrize("stream", [True, False])
def test_in_the_middle_the_last_figures_are_counted_apart(stream: bool) -> None:
    with running_stack({"default": [FakeSGLang(delay=0.05, pieces=["x"] * 1000)]}) as stack:
        client = open_request(stack, stream=stream)
        wait_until(lambda: bool(stack.fake.running))
        time.sleep(0.2)
        client.close()
        assert wait_until(lambda: not stack.fake.running) < 1
        wait_until(lambda: aborted(stack) == 1)
        tokens = stack.metric("specserve_completion_tokens_total", model=MODEL, pool="default")
        assert tokens
        assert tokens < 100
        assert stack.metric("specserve_spec_decode_num_drafts_total", **DRAFT) is None
        assert stack.metric("specserve_spec_decode_aborted_num_drafts_total", **DRAFT)


def test_every_prompt_of_a_batch_is_named_and_no_choice_is() -> None:
    with running_stack({"default": [FakeSGLang(ttft=30)]}) as stack:
        client = open_request(stack, "/v1/completions", prompt=["a", "b", "c"], n=4)
        wait_until(lambda: bool(stack.fake.running))
        client.close()
        wait_until(lambda: aborted(stack) == 1)
        rid = stack.fake.bodies[0]["rid"]
        assert set(stack.fake.aborts) == {rid, f"{rid}_0", f"{rid}_1", f"{rid}_2"}


def test_an_engine_that_ignores_aborts_loses_the_connection() -> None:
    with running_stack({"default": [FakeSGLang(delay=0.05, pieces=["x"] * 1000, knows_aborts=False)]}) as stack:
        client = open_request(stack, stream=True)
        assert client.recv(64)
        client.close()
        # The fake ends a stream when its connection closes, as SGLang does.
        assert wait_until(lambda: not stack.fake.running) < 1.5
        wait_until(lambda: aborted(stack) == 1)
        assert len(stack.fake.aborts) > 1


def test_the_backend_is_free_again() -> None:
    with running_stack({"default": [FakeSGLang(ttft=30)]}) as stack:
        client = open_request(stack)
        wait_until(lambda: bool(stack.fake.running))
        (backend,) = (backend for _, backend in stack.gateway.catalog.backends())
        assert backend.in_flight == 1
        client.close()
        wait_until(lambda: backend.in_flight == 0)
        assert stack.metric("specserve_requests_in_flight", model=MODEL, pool="default") == 0
