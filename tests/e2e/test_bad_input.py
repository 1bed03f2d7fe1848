"""Bad requests: a clear OpenAI-shaped 4xx that names the field, and never a 5xx."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.live import MODEL, Service

CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "model_is_a_number": ({"model": 7}, "model"),
    "unknown_model": ({"model": "gpt-9"}, "model"),
    "no_messages": ({"messages": None}, "messages"),
    "messages_is_text": ({"messages": "Hi"}, "messages"),
    "empty_messages": ({"messages": []}, "messages"),
    "stream_is_text": ({"stream": "yes please"}, "stream"),
    "n_is_zero": ({"n": 0}, "n"),
    "n_is_huge": ({"n": 1000}, "n"),
    "n_is_text": ({"n": "two"}, "n"),
    "bad_mode": ({"speculation": {"mode": "sometimes"}}, "speculation"),
    "unknown_speculation_field": ({"speculation": {"tokens": 4}}, "speculation"),
    "unknown_pool": ({"speculation": {"pool": "nowhere"}}, "speculation"),
    "temperature_is_text": ({"temperature": "hot"}, "temperature"),
    "temperature_is_negative": ({"temperature": -1}, "temperature"),
    "top_p_above_one": ({"top_p": 2}, "top_p"),
    "max_tokens_is_text": ({"max_tokens": "many"}, "max_tokens"),
    "max_tokens_is_negative": ({"max_tokens": -5}, "max_tokens"),
    "seed_beyond_64_bits": ({"seed": 2**70}, "seed"),
    "stream_options_is_text": ({"stream": True, "stream_options": "usage"}, "stream_options"),
    "custom_params_is_text": ({"custom_params": "x"}, "custom_params"),
}


def refused(response: httpx.Response, field: str | None, status: int | None = None) -> None:
    """Check the error's shape, and that the field that `param` names and the status are right."""
    assert 400 <= response.status_code < 500, response.text
    assert status is None or response.status_code == status
    error = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"} and error["message"]
    if field is not None:
        assert (error["param"] or "").split(".")[0].split("[")[0] == field, error


@pytest.mark.parametrize("case", WRONG)
def test_wrong_field(service: Service, case: str) -> None:
    change, field = WRONG[case]
    refused(httpx.post(f"{service.api}/v1/chat/completions", json=CHAT | change, timeout=60), field)


def test_too_long_prompt(service: Service) -> None:
    refused(service.chat("word " * 20000), None, 400)


def test_body_of_three_megabytes(service: Service) -> None:
    refused(service.chat("x" * 3_000_000), None, 413)


def test_invalid_json(service: Service) -> None:
    for content in (b"{", b"", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000):
        response = httpx.post(f"{service.api}/v1/chat/completions", content=content, timeout=60)
        refused(response, None, 400)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Speculation-Metrics", "perhaps"),
        ("X-Specserve-Pool", "nowhere"),
        ("X-Request-Id", "two words"),
        ("X-Request-Id", "x" * 500),
    ],
)
def test_bad_header(service: Service, header: str, value: str) -> None:
    refused(service.chat("Hi", headers={header: value}), header, 400)


def test_unknown_route_and_method(service: Service) -> None:
    refused(httpx.post(f"{service.api}/v1/nothing", json={}), None, 404)
    refused(httpx.get(f"{service.api}/v1/chat/completions"), None, 405)


def test_service_lives(service: Service) -> None:
    assert "Paris" in service.chat("What is the capital of France?").json()["choices"][0]["message"]["content"]
