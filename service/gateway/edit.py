"""Takes out of SGLang's answers what the client did not ask for, and adds what it did."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from service.gateway.prepare import Prepared
from service.gateway.sse import Splitter, data_event, event_data
from service.gateway.tally import Tally
from service.gateway.upstream_errors import openai_error


def is_rare(data: bytes) -> bool:
    """Whether the bytes may hold an event that must be looked at. Never false for one that must.

    Inside a JSON string the quotes would be escaped, so a model that writes such text makes no false hit worth
    more than one parse. Written out: each chunk of each stream passes here, and a loop would cost twice as much.
    """
    return (
        b'"choices":[]' in data
        or b'"choices": []' in data
        or b'"sglext"' in data
        or b'"error"' in data
        or b"[DONE]" in data
    )


@dataclass(frozen=True, slots=True)
class Wants:
    """What the client asked for beyond the answer itself."""

    usage: bool
    sglext: frozenset[str]
    metrics: bool

    @classmethod
    def of(cls, prepared: Prepared) -> Wants:
        return cls(prepared.wants_usage, prepared.wants_sglext, prepared.extras.metrics)


def edit_body(raw: bytes, wants: Wants, tally: Tally) -> bytes:
    """The body of a whole answer as the client shall see it. Raises ValueError when it is no JSON object."""
    body = orjson.loads(raw)
    if not isinstance(body, dict):
        raise ValueError("the answer is not a JSON object")
    tally.take_usage(body.get("usage"))
    tally.take_sglext(body.get("sglext"))
    changed = _strip_sglext(body, wants)
    if wants.metrics:
        body["metrics"] = tally.metrics()
        changed = True
    return orjson.dumps(body) if changed else raw


def read_plain(raw: bytes, tally: Tally) -> None:
    """Read the usage of an answer that passes as it is, whatever its shape."""
    with suppress(orjson.JSONDecodeError):
        body = orjson.loads(raw)
        if isinstance(body, dict):
            tally.take_usage(body.get("usage"))


class StreamEditor:
    """Passes a stream on event by event; ordinary events keep their bytes and are never parsed.

    `feed` takes upstream bytes and gives the bytes for the client, possibly none. What the events told is in
    the tally: `done` after `[DONE]`, `error` after an error event.
    """

    def __init__(self, wants: Wants, tally: Tally) -> None:
        self._wants = wants
        self._tally = tally
        self._splitter = Splitter()
        self._head: dict[str, Any] = {}
        self._metrics_sent = False

    def feed(self, chunk: bytes) -> bytes:
        """Bytes to send on for these upstream bytes."""
        if not self._splitter.rest and chunk.endswith(b"\n\n") and not is_rare(chunk):
            return chunk
        events = self._splitter.feed(chunk)
        return b"".join([self._look(event) if is_rare(event) else event for event in events])

    def _look(self, event: bytes) -> bytes:
        data = event_data(event)
        if data == b"[DONE]":
            self._tally.done = True
            return self._own_metrics() + event
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            return event
        if not isinstance(body, dict):
            return event
        if "error" in body and not body.get("choices"):
            self._tally.error = openai_error(body["error"])
            return data_event(orjson.dumps({"error": self._tally.error}))
        return self._edit(event, body)

    def _edit(self, event: bytes, body: dict[str, Any]) -> bytes:
        self._tally.take_sglext(body.get("sglext"))
        extra = body.get("choices") == []
        if extra:
            self._head = {key: body[key] for key in ("id", "object", "created", "model") if key in body}
        changed = _strip_sglext(body, self._wants)
        if not extra:
            return data_event(orjson.dumps(body)) if changed else event
        if body.get("usage") is not None:
            self._tally.take_usage(body["usage"])
            if not self._wants.usage:
                return b""
            if self._wants.metrics and self._tally.error is None:
                body["metrics"] = self._tally.metrics()
                self._metrics_sent = changed = True
        elif "sglext" not in body and changed:
            return b""
        return data_event(orjson.dumps(body)) if changed else event

    def _own_metrics(self) -> bytes:
        """A last chunk for a client that asked for speculation figures but not for usage."""
        if not self._wants.metrics or self._metrics_sent or self._tally.error is not None:
            return b""
        return data_event(orjson.dumps({**self._head, "choices": [], "metrics": self._tally.metrics()}))


def _strip_sglext(body: dict[str, Any], wants: Wants) -> bool:
    """Keep only the extension keys that the client asked for; tells whether anything went."""
    sglext = body.get("sglext")
    if "sglext" not in body:
        return False
    kept = {key: value for key, value in sglext.items() if key in wants.sglext} if isinstance(sglext, dict) else {}
    if kept == sglext:
        return False
    if kept:
        body["sglext"] = kept
    else:
        del body["sglext"]
    return True
