"""Backends that fail: before the first byte another one is tried, afterwards the client is told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from service.profiles.config import Config, Model
from service.settings import GatewaySettings
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.server import serving
from tests.doubles.stack import MODEL, Stack, pool_config, running_stack
from tests.doubles.wait import wait_until


def outcome(stack: Stack, name: str) -> float | None:
    return stack.metric("specserve_requests_total", model=MODEL, pool="default", outcome=name)


def last_event(text: str) -> Any:
    return orjson.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads a request and closes the connection without an answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            seen.append(client.recv(65536))
            client.close()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.close()


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def gateway_for(*urls: str) -> Iterator[Stack]:
    """A stack in front of given URLs, whose health is not checked."""
    import httpx

    from service.api.app import create_app

    settings = GatewaySettings(health_interval_s=1000, health_timeout_s=0.2)
    pool = pool_config("default", list(urls), "specserve")
    app = create_app(Config(gateway=settings, models=(Model(name=MODEL, pools=(pool,)),)))
    with serving(app) as url, httpx.Client(base_url=url, timeout=20) as http:
        for _, backend in app.state.gateway.catalog.backends():
            time.sleep(0.05)
            backend.mark_up()
        yield Stack(app, url, {}, http)


@pytest.mark.parametrize("stream", [True, False])
def test_a_refused_backend_is_passed_over(stream: bool) -> None:
    fake = FakeSGLang()
    with serving(fake.app) as url, gateway_for(closed_port(), url) as stack:
        assert [stack.chat(stream=stream).status_code for _ in range(3)] == [200, 200, 200]
        health = [backend.health for _, backend in stack.gateway.catalog.backends()]
        assert health == ["down", "up"]
        assert outcome(stack, "ok") == 3


def test_no_reachable_backend_is_503_with_retry_after() -> None:
    with gateway_for(closed_port()) as stack:
        for _ in range(2):
            answer = stack.chat()
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert answer.json()["error"]["type"] == "server_error"
            assert answer.json()["error"]["code"] == "backend_unavailable"
            assert "127.0.0.1" not in answer.text
        assert outcome(stack, "backend_error") == 2


def test_a_backend_that_hangs_up_is_followed_by_another_one() -> None:
    fake = FakeSGLang()
    with serving(fake.app) as url, hanging_up() as (broken, seen), gateway_for(broken, url) as stack:
        assert stack.chat().status_code == 200
        assert any(b"/v1/chat/completions" in request for request in seen)
        wait_until(lambda: any(b"/abort_request" in request for request in seen))


def test_a_single_backend_that_hangs_up_gets_two_tries() -> None:
    with hanging_up() as (broken, seen), gateway_for(broken) as stack:
        answer = stack.chat()
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "backend_broken"
        assert sum(b"/v1/chat/completions" in request for request in seen) == 2


@pytest.mark.parametrize("fault", [{"die_after": 2}, {"close_after": 2}])
def test_a_stream_that_breaks_ends_with_an_error_event(fault: dict[str, int]) -> None:
    with running_stack({"default": [FakeSGLang(delay=0.02, **fault)]}) as stack:
        answer = stack.chat(stream=True)
        assert answer.status_code == 200
        assert "Par" in answer.text
        assert last_event(answer.text)["error"]["code"] == "backend_broken"
        assert "[DONE]" not in answer.text
        assert outcome(stack, "backend_error") == 1


def test_a_stream_that_hangs_ends_with_an_error_event_and_an_abort() -> None:
    with running_stack({"default": [FakeSGLang(hang_after=2)]}, idle_timeout_s=0.3) as stack:
        answer = stack.chat(stream=True)
        assert last_event(answer.text)["error"]["code"] == "backend_timeout"
        wait_until(lambda: not stack.fake.running)
        assert stack.fake.aborts


@pytest.mark.parametrize("stream", [True, False])
def test_no_first_byte_in_time_is_504_and_an_abort(stream: bool) -> None:
    with running_stack({"default": [FakeSGLang(ttft=30)]}, first_byte_timeout_s=0.3) as stack:
        answer = stack.chat(stream=stream)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "backend_timeout"
        wait_until(lambda: stack.fake.bodies[0]["rid"] in stack.fake.aborts)


def test_an_error_inside_a_stream_has_the_openai_shape() -> None:
    with running_stack({"default": [FakeSGLang(error_after=2)]}) as stack:
        answer = stack.chat(stream=True, headers={"X-Speculation-Metrics": "1"})
        error = orjson.loads(answer.text.strip().split("\n\n")[-2].removeprefix("data: "))["error"]
        assert error == {"message": "out of memory", "type": "server_error", "param": None, "code": None}
        assert outcome(stack, "backend_error") == 1


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_status_is_passed_on_in_openai_shape(stream: bool) -> None:
    body = {
        "object": "error",
        "message": "temperature must be non-negative",
        "type": "BadRequest",
        "param": None,
        "code": 400,
    }
    with running_stack({"default": [FakeSGLang(status=400, error_body=body)]}) as stack:
        answer = stack.chat(stream=stream, temperature=-1)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "temperature"
        assert outcome(stack, "client_error") == 1


def test_an_answer_that_is_no_json_is_502() -> None:
    with running_stack() as stack:

        async def nonsense(*_: Any) -> bytes:
            return b"<html>"

        from tests.doubles import fake_sglang

        original = fake_sglang.Answer.whole
        fake_sglang.Answer.whole = nonsense  # type: ignore[method-assign,assignment]
        try:
            answer = stack.chat()
        finally:
            fake_sglang.Answer.whole = original  # type: ignore[method-assign]
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "backend_answer"


def test_a_refusal_that_quotes_the_prompt_is_not_logged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    body = {"message": "1 validation error: 'input': 'a private prompt'", "code": 400}
    with running_stack({"default": [FakeSGLang(status=400, error_body=body)]}) as stack:
        assert "private" in stack.chat().text
        wait_until(lambda: outcome(stack, "client_error") == 1)
    logged = b"".join(capfdbinary.readouterr())
    assert b"refused the request with 400" in logged
    assert b"private" not in logged
