"""SGLang's errors in OpenAI's shape, with real messages of SGLang 0.5.23."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from service.gateway.upstream_errors import client_is_at_fault, openai_error, upstream_error

VALIDATION = (
    "1 validation error:\n  {'type': 'float_parsing', 'loc': ('body', 'temperature'), 'msg': 'Input should be a "
    "valid number, unable to parse string as a number', 'input': 'hot'} [{'type': 'float_parsing', 'loc': ('body', "
    "'temperature'), 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': 'hot'}]"
)


def sglang(message: str, code: int = 400) -> bytes:
    return orjson.dumps({"object": "error", "message": message, "type": "BadRequest", "param": None, "code": code})


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        (
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "messages",
            "context_length_exceeded",
        ),
        (
            "Requested token count exceeds the model's maximum context length of 8192 tokens.",
            "max_tokens",
            "context_length_exceeded",
        ),
        (VALIDATION, "temperature", None),
        ("max_new_tokens must be at least 0, got -5.", "max_tokens", None),
        ("top_p must be in (0, 1], got 5.", "top_p", None),
        ("Something is wrong", None, None),
    ],
)
def test_the_field_at_fault_is_named(message: str, param: str | None, code: str | None) -> None:
    error = upstream_error(400, sglang(message), fields={"top_p": 5, "max_tokens": -5}, prompt_field="messages")
    assert (error.status, error.type, error.param, error.code) == (400, "invalid_request_error", param, code)


def test_a_pydantic_message_becomes_one_sentence() -> None:
    error = upstream_error(400, sglang(VALIDATION), fields=(), prompt_field="prompt")
    assert error.message == "`temperature`: Input should be a valid number, unable to parse string as a number"


@pytest.mark.parametrize(
    ("status", "raw", "expected"),
    [
        (500, sglang("boom", 500), 500),
        (503, sglang("full", 503), 503),
        (429, b"slow down", 429),
        (401, b'{"error":"Unauthorized"}', 502),
        (404, b'{"detail":"Not Found"}', 502),
        (307, b"", 502),
    ],
)
def test_statuses(status: int, raw: bytes, expected: int) -> None:
    error = upstream_error(status, raw, fields=(), prompt_field="messages")
    assert error.status == expected
    assert error.message
    assert (error.type == "server_error") == (expected >= 500)


@pytest.mark.parametrize("value", ["text", None, 5, {}, {"message": None}, {"error": "x"}])
def test_any_error_has_the_four_keys(value: Any) -> None:
    error = openai_error(value)
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert not client_is_at_fault(error)
