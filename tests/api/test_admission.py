"""Admission at the service: queue, deadline, classes, and clients that leave."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import openai
import pytest

from tests.api.test_api_keys import write_keys
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack
from tests.doubles.wait import wait_until

MESSAGES = [{"role": "user", "content": "Hi"}]
POOL = {"model": MODEL, "pool": "default"}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def gate_of(stack: Stack) -> Any:
    return stack.gateway.catalog.models[0].pools[0].gate


def slow(ttft: float = 0.3) -> dict[str, list[FakeSGLang]]:
    return {"default": [FakeSGLang(ttft=ttft)]}


def until_busy(stack: Stack, running: int = 1, queued: int = 0) -> None:
    wait_until(lambda: (gate_of(stack).running, gate_of(stack).queued) == (running, queued))


@contextmanager
def held(stack: Stack) -> Iterator[Callable[[], None]]:
    """A request that runs until its client leaves, by the call that is given or in the end."""
    stack.fake.knobs.ttft = 60.0
    address = urlsplit(stack.url)
    body = json.dumps({"model": MODEL, "messages": MESSAGES}).encode()
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        wait_until(lambda: len(stack.fake.running) == 1)
        stack.fake.knobs.ttft = 0.0
        yield client.close
    empty(stack)


def empty(stack: Stack) -> None:
    until_busy(stack, 0, 0)


def chats(stack: Stack, threads: ThreadPoolExecutor, count: int, **extra: Any) -> list[Future[httpx.Response]]:
    return [threads.submit(stack.chat, **extra) for _ in range(count)]


def test_no_more_run_than_allowed_and_all_are_answered(threads: ThreadPoolExecutor) -> None:
    fakes = slow(0.02)
    most = 0
    with running_stack(fakes, admission={"max_running": 2}) as stack:
        answers = chats(stack, threads, 8) + chats(stack, threads, 8, stream=True)
        while not all(answer.done() for answer in answers):
            most = max(most, len(stack.fake.running))
        assert [answer.result().status_code for answer in answers] == [200] * 16
        empty(stack)
        assert most == 2
        assert stack.metric("specserve_queue_seconds_count", **POOL) == 16
        assert stack.metric("specserve_queue_seconds_sum", **POOL)


def test_the_pools_own_bound_goes_before_the_general_one() -> None:
    from service.profiles.config import Config, Model, Pool
    from service.settings import AdmissionSettings
    from tests.doubles.stack import create_app

    pools = (Pool(name="own", max_running=3, backends=("http://x",)), Pool(name="other", backends=("http://x",)))
    config = Config(admission=AdmissionSettings(max_running=7), models=(Model(pools=pools),))
    served = create_app(config).state.gateway.catalog.models[0].pools
    assert [pool.gate._most for pool in served] == [3, 7]


def test_408_when_no_place_comes_free_in_time() -> None:
    with running_stack(admission={"max_running": 1, "queue_timeout_s": 0.1}) as stack, held(stack):
        late = stack.chat()
        assert late.status_code == 408
        assert late.json()["error"] == {
            "message": "No place became free for this request within 0.1 s.",
            "type": "timeout_error",
            "param": None,
            "code": "queue_timeout",
        }
        assert int(late.headers["retry-after"]) >= 1
        assert len(stack.fake.bodies) == 1
        assert stack.metric("specserve_requests_total", **POOL, outcome="refused") == 1


def test_429_at_once_when_the_queue_is_full() -> None:
    with running_stack(admission={"max_running": 1, "max_queued": 0}) as stack:
        with held(stack):
            began = time.monotonic()
            refused = stack.chat()
            assert time.monotonic() - began < 1
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
            assert refused.json()["error"]["type"] == "rate_limit_error"
        assert stack.chat().status_code == 200


def test_the_openai_client_comes_again_after_a_429() -> None:
    with running_stack(admission={"max_running": 1, "max_queued": 0}) as stack, held(stack) as release:
        hasty = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.RateLimitError) as refused:
            hasty.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert refused.value.code == "queue_full"
        assert refused.value.response.headers["retry-after"] == "1"
        patient = hasty.with_options(max_retries=3)
        began = time.monotonic()
        threading.Timer(0.2, release).start()
        answer = patient.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert answer.choices[0].message.content == "Paris is it."
        # The client obeyed the header: its own back-off begins with half a second.
        assert time.monotonic() - began > 0.95


def test_anthropics_client_gets_its_own_error() -> None:
    with running_stack(admission={"max_running": 1, "max_queued": 0}) as stack, held(stack):
        client = anthropic.Anthropic(base_url=stack.url, api_key="x", max_retries=0)
        with pytest.raises(anthropic.RateLimitError) as refused:
            client.messages.create(model=MODEL, max_tokens=8, messages=[{"role": "user", "content": "Hi"}])
        assert refused.value.response.json()["error"]["type"] == "rate_limit_error"
        assert refused.value.response.headers["retry-after"] == "1"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_the_queue_leaves_it_at_once(stream: bool) -> None:
    with running_stack(admission={"max_running": 1}) as stack, held(stack):
        body = {"model": MODEL, "messages": MESSAGES, "stream": stream}
        with httpx.Client(base_url=stack.url, timeout=0.3) as hasty, pytest.raises(httpx.ReadTimeout):
            hasty.post("/v1/chat/completions", json=body)
        assert wait_until(lambda: gate_of(stack).queued == 0) < 0.5
        assert gate_of(stack).running == 1
        assert len(stack.fake.bodies) == 1
        assert stack.metric("specserve_requests_total", **POOL, outcome="aborted") == 1


def abandon(stack: Stack) -> None:
    """A client that leaves while its request runs; the place is kept until the backend has stopped."""
    with httpx.Client(base_url=stack.url, timeout=0.2) as hasty, pytest.raises(httpx.ReadTimeout):
        hasty.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES})


def leave_stream(stack: Stack) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    with stack.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        next(answer.iter_bytes())


@pytest.mark.parametrize(
    ("knobs", "ask"),
    [
        ({}, lambda stack: stack.chat()),
        ({}, lambda stack: stack.chat(stream=True)),
        ({}, lambda stack: stack.chat(n=99)),
        ({"status": 400, "error_body": {"message": "no"}}, lambda stack: stack.chat()),
        ({"status": 500, "error_body": {"message": "no"}}, lambda stack: stack.chat(stream=True)),
        ({"die_after": 2, "delay": 0.01}, lambda stack: stack.chat(stream=True)),
        ({"close_after": 2}, lambda stack: stack.chat(stream=True)),
        ({"error_after": 2}, lambda stack: stack.chat(stream=True)),
        ({"hang_after": 2}, lambda stack: stack.chat(stream=True)),
        ({"ttft": 2.0}, abandon),
        ({"ttft": 2.0, "knows_aborts": False}, abandon),
        ({"delay": 0.05, "pieces": ["x"] * 100}, leave_stream),
        ({}, lambda stack: stack.http.post("/v1/embeddings", json={"model": MODEL, "input": "x"})),
    ],
)
def test_every_end_gives_its_place_back(knobs: dict[str, Any], ask: Callable[[Stack], Any]) -> None:
    fakes = {"default": [FakeSGLang(**knobs)]}
    with running_stack(fakes, admission={"max_running": 1, "max_queued": 0}, idle_timeout_s=0.3) as stack:
        for _ in range(2):
            ask(stack)
            empty(stack)


def test_a_backend_that_is_gone_holds_no_place() -> None:
    with running_stack(admission={"max_running": 1, "max_queued": 0}) as stack:
        for backend in stack.gateway.catalog.models[0].pools[0].backends:
            backend.url = "http://127.0.0.1:9"
        for _ in range(3):
            assert stack.chat().status_code == 503
            empty(stack)


def test_what_is_no_work_of_the_model_passes_a_closed_gate() -> None:
    with running_stack(admission={"max_running": 1, "max_queued": 0}) as stack, held(stack):
        assert stack.http.post("/v1/tokenize", json={"model": MODEL, "prompt": "x"}).status_code == 200
        assert stack.http.post("/v1/embeddings", json={"model": MODEL, "input": "x"}).status_code == 429


def test_priority_and_open_requests_of_a_key(threads: ThreadPoolExecutor, tmp_path: Path) -> None:
    keys = write_keys(
        tmp_path / "keys.yaml", urgent={"priority": "high"}, batch={"priority": "low", "max_concurrent": 3}
    )
    order: list[str] = []
    lock = threading.Lock()

    with running_stack(slow(0.1), admission={"max_running": 1}, api_keys=keys) as stack:

        def ask(name: str) -> int:
            status = stack.chat(headers={"Authorization": f"Bearer sk-{name}"}).status_code
            with lock:
                order.append(name)
            return status

        low = []
        for number in range(3):
            low.append(threads.submit(ask, "batch"))
            until_busy(stack, 1, number)
        high = threads.submit(ask, "urgent")
        until_busy(stack, 1, 3)
        refused = stack.chat(headers={"Authorization": "Bearer sk-batch"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "tenant_concurrency")
        assert [one.result() for one in (*low, high)] == [200] * 4
        assert order == ["batch", "urgent", "batch", "batch"]
        empty(stack)
        assert stack.gateway.admission._open == {"batch": 0}
        assert stack.metric("specserve_requests_refused_total", **POOL, reason="tenant_concurrency") == 1


def test_requests_that_wait_when_the_service_ends_are_answered(threads: ThreadPoolExecutor) -> None:
    body = {"model": MODEL, "messages": MESSAGES}
    with running_stack(slow(0.2), admission={"max_running": 1}) as stack:
        url = f"{stack.url}/v1/chat/completions"
        answers = [threads.submit(httpx.post, url, json=body, timeout=5) for _ in range(3)]
        until_busy(stack, 1, 2)
    # The server's grace is a second: time for all three.
    assert [answer.result().status_code for answer in answers] == [200] * 3
