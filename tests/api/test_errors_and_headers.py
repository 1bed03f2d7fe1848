"""Every wrong request gets an OpenAI error that names what is wrong; headers come and go as documented."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import Stack, running_stack

LIMIT = 2 * 1024 * 1024
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    fakes = {"main": [FakeSGLang()], "plain": [FakeSGLang()]}
    with running_stack(fakes, {"plain": "none"}) as running:
        yield running


def error_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error  # type: ignore[no-any-return]


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"", "body"),
    (b"{not json", "body"),
    (b"[1]", "body"),
    (b"\xff", "body"),
    (b'{"model":"smol","messages":[{"role":"user"}],"x":' + b"[" * 400 + b"]" * 400 + b"}", "body"),
    (b'{"messages":[{"role":"user","content":"x"}]}', "model"),
    (b'{"model":"smol"}', "messages"),
    (b'{"model":"smol","messages":[{"role":"user","content":"x"}],"stream":"yes"}', "stream"),
    (b'{"model":"smol","messages":[{"role":"user","content":"x"}],"n":17}', "n"),
    (b'{"model":"smol","messages":[{"role":"user","content":"x"}],"speculation":{"pool":"x"}}', "speculation.pool"),
    (b'{"model":"smol","messages":[{"role":"user","content":"x"}],"speculation":{"mode":1}}', "speculation.mode"),
]


@pytest.mark.parametrize(("body", "param"), BAD_BODIES)
def test_bad_bodies(body: bytes, param: str, stack: Stack) -> None:
    assert error_of(stack.http.post(CHAT, content=body), 400)["param"] == param


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"X-Specserve-Pool": "nope"}, "X-Specserve-Pool"),
        ({"X-Speculation-Metrics": "true"}, "X-Speculation-Metrics"),
        ({"X-Request-Id": "has space"}, "X-Request-Id"),
        ({"X-Request-Id": "x" * 129}, "X-Request-Id"),
        ({"X-Request-Id": ""}, "X-Request-Id"),
    ],
)
def test_bad_headers(headers: dict[str, str], param: str, stack: Stack) -> None:
    assert error_of(stack.chat(headers=headers), 400)["param"] == param


def test_a_mode_that_the_named_pool_cannot_obey(stack: Stack) -> None:
    answer = stack.chat(headers={"X-Specserve-Pool": "plain"}, speculation={"mode": "on"})
    assert error_of(answer, 400)["param"] == "speculation.mode"


def test_unknown_model_path_and_method(stack: Stack) -> None:
    assert error_of(stack.chat(model="nope"), 404)["param"] == "model"
    assert error_of(stack.http.get("/v1/models/nope"), 404)["code"] == "model_not_found"
    assert error_of(stack.http.get("/v1/nothing"), 404)["code"] == "not_found"
    assert error_of(stack.http.get(CHAT), 405)["code"] == "method_not_allowed"
    assert stack.http.get(CHAT).headers["allow"] == "POST"


def test_an_announced_body_that_is_too_large(stack: Stack) -> None:
    error = error_of(stack.http.post(CHAT, content=b"x" * (3 * 1024 * 1024)), 413)
    assert (error["param"], error["code"]) == ("body", "body_too_large")


def test_a_compressed_body_is_refused_as_such(stack: Stack) -> None:
    answer = stack.http.post(CHAT, content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert error_of(answer, 415)["param"] == "Content-Encoding"


def test_health_by_head(stack: Stack) -> None:
    answer = stack.http.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_chunked_body_that_is_too_large(stack: Stack) -> None:
    parts = (b"x" * 65536 for _ in range(48))
    assert error_of(stack.http.post(CHAT, content=parts), 413)["param"] == "body"
    assert stack.http.get("/health").status_code == 200


def test_a_body_that_does_not_come() -> None:
    with running_stack(body_timeout_s=0.2) as impatient:
        host, port = impatient.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
            assert b" 408 " in client.recv(4096).split(b"\r\n")[0]


def test_response_headers(stack: Stack) -> None:
    for stream in (False, True):
        answer = stack.chat(stream=stream, headers={"X-Request-Id": "my.id:1_2-3"})
        assert answer.headers["x-request-id"] == "my.id:1_2-3"
        assert answer.headers["x-specserve-pool"] == "main"
        assert 0 < float(answer.headers["x-specserve-overhead-ms"]) < 100
        assert stack.fake.headers[-1]["x-request-id"] == "my.id:1_2-3"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"


def test_waiting_for_the_backend_is_no_overhead() -> None:
    with running_stack({"default": [FakeSGLang(ttft=0.3)]}) as slow:
        assert float(slow.chat().headers["x-specserve-overhead-ms"]) < 100


def test_pool_selection(stack: Stack) -> None:
    for answer in (
        stack.chat(headers={"X-Specserve-Pool": "plain"}),
        stack.chat(speculation={"pool": "plain", "mode": "off"}),
    ):
        assert answer.headers["x-specserve-pool"] == "plain"
    assert stack.chat(speculation={"mode": "off"}).headers["x-specserve-pool"] == "main"
    assert stack.fake.bodies[-1]["custom_params"] == {"specserve": {"mode": "off"}}


def test_request_extras_and_unknown_headers_stay_here(stack: Stack) -> None:
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"
    headers = {"traceparent": trace, "X-Custom": "1", "Authorization": "Bearer x", "Cookie": "c"}
    stack.chat(headers=headers, speculation={"mode": "auto"})
    sent = stack.fake.headers[-1]
    assert sent["traceparent"] == trace
    assert not sent.keys() & {"x-custom", "authorization", "cookie"}
    assert not stack.fake.bodies[-1].keys() & {"speculation", "strategy"}


def test_a_made_request_id_is_unique(stack: Stack) -> None:
    ids = {stack.chat().headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_the_exemplar_is_the_trace(stack: Stack) -> None:
    stack.chat(headers={"traceparent": f"00-{'ef' * 16}-{'cd' * 8}-01"})
    text = stack.http.get("/metrics", headers={"Accept": "application/openmetrics-text"}).text
    assert f'trace_id="{"ef" * 16}"' in text
    assert text.endswith("# EOF\n")


def test_no_label_comes_from_request_text(stack: Stack) -> None:
    stack.chat(model="evil-model", user="evil-user")
    stack.chat(headers={"X-Specserve-Pool": "evil-pool", "X-Request-Id": "evil-id"})
    assert "evil" not in stack.http.get("/metrics").text


def test_an_unexpected_exception_is_500_with_the_request_id(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug with a secret")

    monkeypatch.setattr("service.gateway.flow.choose_pool", broken)
    answer = stack.chat()
    assert error_of(answer, 500)["type"] == "server_error"
    assert "secret" not in answer.text


def test_openapi_documents_the_generating_endpoints(stack: Stack) -> None:
    schema = orjson.loads(stack.http.get("/openapi.json").content)
    assert {CHAT, "/v1/completions", "/v1/models", "/health", "/metrics"} <= set(schema["paths"])
    operation = schema["paths"][CHAT]["post"]
    assert {parameter["name"] for parameter in operation["parameters"]} == {
        "X-Request-Id",
        "X-Specserve-Pool",
        "X-Speculation-Metrics",
    }
    assert {"415", "413"} <= set(operation["responses"])
    assert not any("422" in each["responses"] for path in schema["paths"].values() for each in path.values())
    known = set(schema["components"]["schemas"])
    for reference in orjson.dumps(schema).decode().split('"$ref":"#/components/schemas/')[1:]:
        assert reference.split('"')[0] in known
    assert stack.http.get("/docs").status_code == 200
