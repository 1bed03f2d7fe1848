"""A stream of chat completion chunks as Anthropic's events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from service.api.anthropic.answer import error_body, head, stop, usage
from service.gateway.sse import Splitter, event_data

_OPENINGS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


class MessageStream:
    """Translates one stream. `feed` takes bytes at any borders and gives whole events, possibly none.

    One block is open at a time, as Anthropic's clients expect; each new kind of content closes the last one.
    """

    def __init__(self, request_id: str | None) -> None:
        self._request_id = request_id
        self._splitter = Splitter()
        self._started = False
        self._failed = False
        self._open: str | None = None
        self._index = -1
        self._stop: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
        self._usage: object = None
        self._metrics: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> bytes:
        """Events for these bytes of the chat stream."""
        return b"".join(part for event in self._splitter.feed(chunk) for part in self._event(event_data(event)))

    def _event(self, data: bytes) -> Iterator[bytes]:
        if self._failed or not data:
            return
        if data == b"[DONE]":
            yield from self._end()
            return
        body = _object(data)
        if body is None or ("error" in body and not body.get("choices")):
            self._failed = True
            yield _encoded("error", error_body(502, data, self._request_id))
            return
        if body.get("usage") is not None:
            self._usage = body["usage"]
        if "metrics" in body:
            self._metrics = {"metrics": body["metrics"]}
        yield from self._start(body)
        for choice in body.get("choices") or ():
            yield from self._choice(choice)

    def _start(self, body: dict[str, Any]) -> Iterator[bytes]:
        if self._started:
            return
        self._started = True
        counts = {**usage(self._usage), "output_tokens": 0}
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counts}
        yield _encoded("message_start", {"message": {**head(body), **empty}})
        yield _encoded("ping", {})

    def _choice(self, choice: dict[str, Any]) -> Iterator[bytes]:
        delta = choice.get("delta") or {}
        if thought := delta.get("reasoning_content"):
            yield from self._ensure("thinking", _OPENINGS["thinking"])
            yield self._delta({"type": "thinking_delta", "thinking": thought})
        if text := delta.get("content"):
            yield from self._ensure("text", _OPENINGS["text"])
            yield self._delta({"type": "text_delta", "text": text})
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if choice.get("finish_reason"):
            self._stop = stop(choice)

    def _call(self, call: dict[str, Any]) -> Iterator[bytes]:
        function = call.get("function") or {}
        opening: dict[str, Any] = {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": {}}
        yield from self._ensure(f"tool {call.get('index')}", opening)
        if arguments := function.get("arguments"):
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})

    def _ensure(self, kind: str, opening: dict[str, Any]) -> Iterator[bytes]:
        if self._open == kind:
            return
        yield from self._close()
        self._open = kind
        self._index += 1
        yield _encoded("content_block_start", {"index": self._index, "content_block": opening})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _encoded("content_block_delta", {"index": self._index, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            self._open = None
            yield _encoded("content_block_stop", {"index": self._index})

    def _end(self) -> Iterator[bytes]:
        yield from self._close()
        yield _encoded("message_delta", {"delta": self._stop, "usage": usage(self._usage), **self._metrics})
        yield _encoded("message_stop", {})


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _encoded(kind: str, body: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps({"type": kind, **body}) + b"\n\n"
