"""The mock engine: an asyncio protocol that answers as SGLang does, at a given pace, for little CPU.

`python -m service.bench.gateway.mock PORT` serves on loopback until it is stopped. It reads the request's plan by
byte search and parses no JSON: whatever it spends is taken from the gateway under test.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import cast

import httptools
import uvloop

from service.bench.gateway.plan import MODEL, Plan

_DETAILS = {
    "spec_accept_rate": 0.5,
    "spec_accept_length": 2.5,
    "spec_cap_length": 3.0,
    "spec_num_correct_drafts": 48,
    "spec_num_proposed_drafts": 96,
    "spec_verify_ct": 32,
    "spec_correct_drafts_histogram": [10, 6, 6, 10],
    "spec_cap_lens_histogram": [0, 0, 0, 32],
}
_USAGE = {
    "prompt_tokens": 220,
    "total_tokens": 300,
    "completion_tokens": 80,
    "prompt_tokens_details": {"cached_tokens": 128},
}
_HEAD = {"id": "fd762c9dc0e4428fac9237d202c1f694", "object": "chat.completion", "created": 1796104427, "model": MODEL}
_CHUNK = {**_HEAD, "object": "chat.completion.chunk"}
_TEXT = "The capital of France is Paris, which lies on the river Seine in the north of the country. " * 4
_FIRST_TICK_S = 0.001


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _whole(body: object) -> bytes:
    data = _json(body)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(body: object) -> bytes:
    return _framed(b"data: " + _json(body) + b"\n\n")


def _choice(content: str | None, reason: str | None) -> dict[str, object]:
    delta = {"role": "assistant", "content": content, "reasoning_content": None, "tool_calls": None}
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, "matched_stop": None}


_MESSAGE = {"role": "assistant", "content": _TEXT, "reasoning_content": None, "tool_calls": None}
_ANSWER = {
    **_HEAD,
    "choices": [{"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop", "matched_stop": 2}],
    "usage": _USAGE,
    "metadata": {"weight_version": "default"},
}
_PLAIN = _whole(_ANSWER)
_DRAFTED = _whole({**_ANSWER, "sglext": {"spec_tokens_details": _DETAILS}})
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_STAMP_PLACE = "t=0000000000000000;"
_BEFORE, _AFTER = (
    part.encode()
    for part in _event({**_CHUNK, "choices": [_choice(_STAMP_PLACE, None)], "usage": None})
    .decode()
    .split("0000000000000000")
)
_FINISH = _event({**_CHUNK, "choices": [_choice("", "stop")], "usage": None})
_SGLEXT = _event({**_CHUNK, "choices": [], "usage": None, "sglext": {"spec_tokens_details": _DETAILS}})
_USAGE_EVENT = _event({**_CHUNK, "choices": [], "usage": _USAGE})
_DONE = _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_INFO = {
    "model_path": MODEL,
    "served_model_name": MODEL,
    "tokenizer_path": MODEL,
    "is_generation": True,
    "max_total_num_tokens": 1_000_000,
    "max_req_input_len": 100_000,
    "tp_size": 1,
    "dp_size": 1,
    "version": "0.5.23",
    "internal_states": [{}],
}
_PAGES = {
    b"/v1/models": _whole({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "mock"}]}),
    b"/get_load": _whole([]),
}
_ANY_PAGE = _whole(_INFO)


def stamped_chunk() -> bytes:
    """One event that tells when it was made, framed for the wire."""
    return b"%s%016d%s" % (_BEFORE, time.monotonic_ns(), _AFTER)


class Ticker:
    """One clock for the streams of a burst: every tick writes a chunk to each of them, as a batching engine does."""

    def __init__(self) -> None:
        self._streams: list[Callable[[], bool]] = []
        self._running = False

    def add(self, step: Callable[[], bool], every_s: float) -> None:
        """Call `step` at each tick until it says that it is done."""
        self._streams.append(step)
        if not self._running:
            self._running = True
            loop = asyncio.get_running_loop()
            loop.call_later(_FIRST_TICK_S, self._tick, loop.time() + _FIRST_TICK_S, every_s)

    def _tick(self, due: float, every_s: float) -> None:
        self._streams = [step for step in self._streams if not step()]
        self._running = bool(self._streams)
        if self._running:
            asyncio.get_running_loop().call_at(due + every_s, self._tick, due + every_s, every_s)


class MockConnection(asyncio.Protocol):
    """One connection of a client; requests come one after the other."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._url = b""
        self._body = b""
        self._left = 0
        self._tail = b""
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._left = 0

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._rush()

    def on_url(self, url: bytes) -> None:
        self._url, self._body = url, b""

    def on_body(self, body: bytes) -> None:
        self._body = self._body + body if self._body else body

    def on_message_complete(self) -> None:
        if not self._url.startswith(b"/v1/chat"):
            self._transport.write(_PAGES.get(self._url, _ANY_PAGE))
            return
        plan = Plan.find(self._body)
        drafted = b'"return_spec_tokens_details":true' in self._body
        if plan is None or b'"stream":true' not in self._body.replace(b": ", b":"):
            self._transport.write(_DRAFTED if drafted else _PLAIN)
            return
        usage = b'"include_usage":true' in self._body.replace(b": ", b":")
        self._tail = _FINISH + (_SGLEXT if drafted else b"") + (_USAGE_EVENT if usage else b"") + _DONE
        self._left = plan.chunks
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        self._transport.write(_STREAM_HEAD)
        if plan.pace == "unpaced":
            self._rush()
        elif plan.pace == "burst":
            self._ticker.add(self._step, plan.every_ms / 1e3)
        else:
            self._paced(self._loop.time(), plan.every_ms / 1e3)

    def _paced(self, due: float, every_s: float) -> None:
        if not self._step():
            self._loop.call_at(due + every_s, self._paced, due + every_s, every_s)

    def _rush(self) -> None:
        """A chunk in each turn of the loop, as long as the reader keeps up."""
        if self._left and not self._paused and not self._step():
            self._loop.call_soon(self._rush)

    def _step(self) -> bool:
        """Send one chunk, and the end after the last; true when there is nothing left to send."""
        if not self._left or self._transport.is_closing():
            return True
        self._left -= 1
        self._transport.write(stamped_chunk() if self._left else stamped_chunk() + self._tail)
        return not self._left


async def serve(port: int) -> None:
    """Serve on loopback until cancelled."""
    ticker = Ticker()
    server = await asyncio.get_running_loop().create_server(lambda: MockConnection(ticker), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
