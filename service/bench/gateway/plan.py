"""What a benchmark request asks of the mock engine; it travels in the prompt, which every gateway passes on."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

MODEL = "bench"
Pace = Literal["even", "burst", "unpaced"]

_PLAN = re.compile(rb"plan=(\d+),(\d+),(even|burst|unpaced);")
STAMP = re.compile(rb"t=(\d{16});")
"""A chunk's content: nanoseconds of the monotonic clock at which the mock sent it."""
_FILLER = "The quick brown fox jumps over the lazy dog while the engine counts its tokens. "
_PROMPT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """`chunks` events, `every_ms` milliseconds apart: each stream on its own clock, or all on one tick."""

    chunks: int
    every_ms: int
    pace: Pace

    def words(self) -> str:
        """The plan as it stands in the prompt."""
        return f"plan={self.chunks},{self.every_ms},{self.pace};"

    @classmethod
    def find(cls, body: bytes) -> Plan | None:
        """The plan in a request body, None without one."""
        found = _PLAN.search(body)
        if found is None:
            return None
        pace: Pace = "even" if found[3] == b"even" else "burst" if found[3] == b"burst" else "unpaced"
        return cls(int(found[1]), int(found[2]), pace)


def request_bytes(host: str, plan: Plan | None) -> bytes:
    """A whole HTTP request for a chat completion: streamed as planned, or answered at once without a plan."""
    text = _FILLER * (_PROMPT_CHARS // len(_FILLER))
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": text if plan is None else plan.words() + text},
    ]
    body: dict[str, object] = {"model": MODEL, "messages": messages, "max_tokens": 256, "temperature": 0.5}
    if plan is not None:
        body["stream"] = True
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer sk-bench\r\nAccept: */*\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data
