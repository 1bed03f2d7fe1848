"""Reads an answer as it arrives; knows no sockets and no clock."""

from __future__ import annotations

from typing import Any

import orjson


class Answer:
    """Figures of one answer, whole or streamed. Times are given in, seconds since the request was due."""

    def __init__(self) -> None:
        self.first_event_s: float | None = None
        self.ttft_s: float | None = None
        self.gaps_s: list[float] = []
        self.text: list[str] = []
        self.tool_calls: list[dict[str, Any]] = []
        self.usage: dict[str, Any] = {}
        self.drafts: dict[str, Any] = {}
        self.error: str | None = None
        self.done = False
        self._last: float | None = None

    @property
    def pieces(self) -> int:
        """Pieces of text so far."""
        return 0 if self._last is None else 1 + len(self.gaps_s)

    def event(self, at: float, event: bytes) -> None:
        """One server-sent event, with or without its blank line. Anything but `data:` is ignored."""
        for line in event.splitlines():
            if line.startswith(b"data:"):
                self._data(at, line[5:].strip())

    def whole(self, body: bytes) -> None:
        """A body that is no stream; one that is no JSON is noted as the error."""
        try:
            answer = orjson.loads(body)
            self._account(answer)
            self._text(answer["choices"][0]["message"])
            self.done = True
        except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError):
            self.error = f"no chat completion: {body[:200].decode(errors='replace')}"

    def _data(self, at: float, data: bytes) -> None:
        if self.first_event_s is None:
            self.first_event_s = at
        if data == b"[DONE]":
            self.done = True
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            self.error = f"an event that is no JSON: {data[:200].decode(errors='replace')}"
            return
        if not isinstance(chunk, dict):
            self.error = "an event that is no object"
        elif chunk.get("error"):
            self.error = str(chunk["error"].get("message") if isinstance(chunk["error"], dict) else chunk["error"])
        else:
            self._account(chunk)
            for choice in chunk.get("choices") or ():
                if self._text(choice.get("delta") or {}):
                    self._piece(at)

    def _piece(self, at: float) -> None:
        if self._last is None:
            self.ttft_s = at
        else:
            self.gaps_s.append(at - self._last)
        self._last = at

    def _text(self, part: dict[str, Any]) -> bool:
        """Keep what the model wrote; whether it wrote anything."""
        calls = part.get("tool_calls") or ()
        self.tool_calls.extend(calls)
        text = part.get("content") or ""
        self.text.append(text)
        return bool(text or calls or part.get("reasoning_content"))

    def _account(self, part: dict[str, Any]) -> None:
        self.usage = part.get("usage") or self.usage
        self.drafts = (part.get("metrics") or {}).get("speculative_decoding") or self.drafts
