"""Chat answers, whole and streamed at any borders, as Anthropic's messages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.anthropic.answer import error_body, message
from service.api.anthropic.stream import MessageStream
from service.gateway.sse import Splitter, event_data

USAGE = {"prompt_tokens": 10, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}
COUNTED = {"input_tokens": 6, "output_tokens": 6, "cache_read_input_tokens": 4}


def whole(answer: dict[str, Any], reason: str, **choice: Any) -> dict[str, Any]:
    chat = {
        "id": "x",
        "model": "m",
        "choices": [{"message": answer, "finish_reason": reason, **choice}],
        "usage": USAGE,
    }
    return message(chat)


def test_text() -> None:
    found = whole({"content": "Paris"}, "stop", matched_stop=2)
    assert found["content"] == [{"type": "text", "text": "Paris"}]
    assert (found["stop_reason"], found["stop_sequence"]) == ("end_turn", None)
    assert found["usage"] == COUNTED


def test_why_it_stopped() -> None:
    stopped = whole({"content": "a"}, "stop", matched_stop="END")
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "END")
    assert whole({"content": "a"}, "length")["stop_reason"] == "max_tokens"


def test_calls_and_thoughts() -> None:
    call = {"id": "t1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    found = whole({"content": None, "reasoning_content": "hm", "tool_calls": [call]}, "tool_calls")
    assert [block["type"] for block in found["content"]] == ["thinking", "tool_use"]
    assert found["content"][1] == {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
    assert found["stop_reason"] == "tool_use"


def test_cut_arguments_are_not_made_up() -> None:
    call = {"id": "t1", "function": {"name": "f", "arguments": '{"a": '}}
    assert whole({"tool_calls": [call]}, "length")["content"] == [{"type": "text", "text": 'f({"a": '}]


def test_unknown_counts_are_null() -> None:
    chat = {"id": "x", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    assert message(chat)["usage"] == {"input_tokens": None, "output_tokens": None}
    with pytest.raises(ValueError, match="no chat completion|not a chat completion"):
        message({"choices": []})


def test_errors() -> None:
    body = orjson.dumps({"error": {"message": "slow down", "type": "x", "param": None, "code": None}})
    assert error_body(429, body, "r")["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert error_body(500, b"<html>", "r")["error"]["message"] == "The service failed."


def chunk(delta: dict[str, Any] | None, reason: str | None = None, **extra: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: " + orjson.dumps({"id": "x", "model": "m", "choices": choices, **extra}) + b"\n\n"


def call(index: int, name: str | None, arguments: str | None) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {
        "tool_calls": [
            {"index": index, "id": f"t{index}" if name else None, "function": {**named, "arguments": arguments}}
        ]
    }


STREAM = b"".join(
    [
        chunk({"role": "assistant", "content": ""}, usage={"prompt_tokens": 10, "completion_tokens": 0}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "Ça "}),
        chunk({"content": "va"}),
        chunk(call(0, "f", "")),
        chunk(call(0, None, '{"a":')),
        chunk(call(0, None, " 1}")),
        chunk(call(1, "g", "{}")),
        chunk({}, "tool_calls"),
        chunk(None, usage=USAGE, metrics={"speculative_decoding": None}),
        b"data: [DONE]\n\n",
    ]
)


def events(raw: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(event_data(event)) for event in Splitter().feed(raw)]


def rebuilt(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client puts together; fails for an event out of its order."""
    blocks: list[dict[str, Any]] = []
    open_block = False
    for event in found:
        if event["type"] == "content_block_start":
            assert not open_block
            assert event["index"] == len(blocks)
            open_block = True
            blocks.append({**event["content_block"], "got": ""})
        elif event["type"] == "content_block_delta":
            assert open_block
            delta = event["delta"]
            blocks[-1]["got"] += delta.get("text") or delta.get("thinking") or delta.get("partial_json")
        elif event["type"] == "content_block_stop":
            assert event["index"] == len(blocks) - 1
            open_block = False
    assert not open_block
    return blocks


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_streams_at_any_borders(cuts: list[int]) -> None:
    stream, borders = MessageStream("r"), [0, *sorted(cuts), len(STREAM)]
    found = events(b"".join(stream.feed(STREAM[a:b]) for a, b in zip(borders, borders[1:], strict=False)))
    assert [(block["type"], block["got"]) for block in rebuilt(found)] == [
        ("thinking", "hm"),
        ("text", "Ça va"),
        ("tool_use", '{"a": 1}'),
        ("tool_use", "{}"),
    ]
    assert found[0]["message"]["usage"]["input_tokens"] == 10
    assert found[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert found[-2]["usage"] == COUNTED
    assert found[-2]["metrics"] == {"speculative_decoding": None}
    assert found[-1]["type"] == "message_stop"


@pytest.mark.parametrize("event", [b'data: {"error": {"message": "out of memory"}}\n\n', b"data: <html>\n\n"])
def test_a_broken_stream_ends_with_an_error_and_no_stop(event: bytes) -> None:
    found = events(MessageStream("r").feed(chunk({"content": "a"}) + event + b"data: [DONE]\n\n"))
    assert found[-1]["type"] == "error"
    assert found[-1]["request_id"] == "r"
    assert "message_stop" not in [each["type"] for each in found]
