"""Reading an answer as it arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadtests.answer import Answer


def event(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(**fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields}])


def test_a_stream_of_two_pieces() -> None:
    answer = Answer()
    answer.event(0.1, delta(role="assistant", content=""))
    answer.event(0.3, delta(content="Pa"))
    answer.event(0.4, delta(content="ris"))
    answer.event(0.5, event(choices=[], metrics={"speculative_decoding": {"num_spec_steps": 2}}))
    answer.event(0.5, event(choices=[], usage={"completion_tokens": 2}))
    answer.event(0.6, b"data: [DONE]\n\n")
    assert (answer.first_event_s, answer.ttft_s) == (0.1, 0.3)
    assert answer.gaps_s == [pytest.approx(0.1)]
    assert "".join(answer.text) == "Paris"
    assert (answer.usage, answer.drafts) == ({"completion_tokens": 2}, {"num_spec_steps": 2})
    assert answer.done and answer.error is None


@pytest.mark.parametrize("fields", [{"tool_calls": [{"index": 0}]}, {"reasoning_content": "hm"}])
def test_a_tool_call_and_a_thought_are_first_tokens_too(fields: dict[str, Any]) -> None:
    answer = Answer()
    answer.event(0.2, delta(**fields))
    assert answer.ttft_s == 0.2


@pytest.mark.parametrize(
    "data",
    [b'data: {"error": {"message": "away"}}\n\n', b"data: {\n\n", b"data: 3\n\n", b'data: {"error": "away"}\n\n'],
)
def test_an_error_inside_a_stream_is_kept(data: bytes) -> None:
    answer = Answer()
    answer.event(0.1, data)
    assert answer.error


def test_comments_are_no_first_byte() -> None:
    answer = Answer()
    answer.event(0.1, b": keep-alive\n\n")
    assert answer.first_event_s is None


def test_a_whole_answer() -> None:
    answer = Answer()
    answer.whole(b'{"choices": [{"message": {"content": "Paris"}}], "usage": {"completion_tokens": 1}}')
    assert answer.text == ["Paris"] and answer.done and answer.ttft_s is None


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"choices": []}', b"[]"])
def test_a_body_that_is_no_completion_is_an_error(body: bytes) -> None:
    answer = Answer()
    answer.whole(body)
    assert answer.error and not answer.done
