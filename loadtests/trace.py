"""Traffic shapes without text: arrivals, lengths, and which prompts share a prefix. Recorded by the gateway's record
sink; replayed here with made-up words that have the same lengths and share the same prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson

from loadtests.traffic import Session, Traffic

BLOCK = 64
"""Tokens that one prefix hash stands for."""
_WORDS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one"
).split()


@dataclass(frozen=True, slots=True)
class Shape:
    """One request: seconds since the first, tokens in and out, and one hash a block of the prompt's beginning.

    Two requests whose first n hashes are the same share at least n blocks of `BLOCK` tokens.
    """

    at: float
    prompt_tokens: int
    completion_tokens: int
    prefix: tuple[str, ...]
    stream: bool

    def text(self) -> str:
        """About `prompt_tokens` words, one token each; equal hashes give equal words."""
        words: list[str] = []
        for mark in self.prefix:
            random = Random(mark)
            words += [random.choice(_WORDS) for _ in range(BLOCK)]
        tail = Random(f"{self.at} {self.prompt_tokens}")
        words += [tail.choice(_WORDS) for _ in range(max(self.prompt_tokens - len(words), 1))]
        return " ".join(words[: max(self.prompt_tokens, 1)])


def read_trace(path: Path) -> list[Shape]:
    """Shapes in order of arrival, the first at 0. Raises OSError and ValueError, naming the line."""
    shapes = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            fields: dict[str, Any] = orjson.loads(line)
            shape = Shape(
                float(fields["at"]),
                int(fields["prompt_tokens"]),
                int(fields["completion_tokens"]),
                tuple(map(str, fields["prefix"])),
                bool(fields["stream"]),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number} is no traffic shape: {error!r}") from None
        if shape.prompt_tokens < 1 or shape.completion_tokens < 1:
            raise ValueError(f"{path}:{number}: prompt_tokens and completion_tokens must be at least 1")
        shapes.append(shape)
    if not shapes:
        raise ValueError(f"{path} holds no traffic shape")
    shapes.sort(key=lambda shape: shape.at)
    return [Shape(s.at - shapes[0].at, s.prompt_tokens, s.completion_tokens, s.prefix, s.stream) for s in shapes]


def replay(path: Path) -> Iterator[tuple[float, Any]]:
    """Due times and the session that each arrival makes."""
    for shape in read_trace(path):
        yield shape.at, partial(_session, shape=shape)


def _session(traffic: Traffic, *, shape: Shape) -> Session:
    more: dict[str, Any] = {"max_tokens": shape.completion_tokens, "ignore_eos": True}
    if not shape.stream:
        more |= {"stream": False, "stream_options": None}
    yield traffic.call("trace", [{"role": "user", "content": shape.text()}], **more)
