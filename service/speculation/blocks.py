"""Which kind of block a text is in: reasoning, a tool call, or prose, by a small push-down automaton."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Block(StrEnum):
    """Kinds of blocks. What tools answer is prose."""

    PROSE = "prose"
    REASONING = "reasoning"
    CALL = "call"


MARKS = (
    ("<think>", "</think>", Block.REASONING),
    ("[THINK]", "[/THINK]", Block.REASONING),
    ("<tool_call>", "</tool_call>", Block.CALL),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", Block.CALL),
    ("[TOOL_CALLS]", "", Block.CALL),
    ("<|python_tag|>", "", Block.CALL),
    ("<tool_response>", "</tool_response>", Block.PROSE),
)
"""Opening mark, closing mark and kind. A block without a closing mark ends with the turn."""

TURN_ENDS = ("<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "</s>")
"""They close everything that is open, so that a block that was cut off does not swallow the next turn."""

_CLOSING = {"{": "}", "[": "]"}
_OPENED = {opening: (closing, kind) for opening, closing, kind in MARKS}
_LONGEST = 32


def _any(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in words)


_ENDS = _any(TURN_ENDS)
_OPENINGS = _any(tuple(opening for opening, _, _ in MARKS))
_CLOSINGS = _any(tuple(closing for _, closing, _ in MARKS if closing))
# JSON outside of marks is a call: models without a mark of their own write calls so.
_OUTSIDE = re.compile(rf"{_ENDS}|{_OPENINGS}|{_CLOSINGS}|(?:\[\s*)?\{{\s*\"")
_INSIDE_CALL = re.compile(rf"{_ENDS}|{_CLOSINGS}")
_INSIDE_JSON = re.compile(rf"{_ENDS}|\\[\"\\]|[\"{{}}\[\]]")
_INSIDE_STRING = re.compile(rf"{_ENDS}|\\[\"\\]|[\"\n]")


@dataclass(frozen=True, slots=True)
class _Open:
    """A block or JSON bracket that is open, and what closes it."""

    kind: Block
    closing: str


class BlockTracker:
    """Follows a text piece by piece; marks may be cut anywhere between pieces.

    `changes` counts openings and closings of blocks, so that two blocks of one kind in a row can be told apart.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._open: list[_Open] = []
        self._in_json = False
        self._in_string = False
        self._tail = ""

    @property
    def block(self) -> Block:
        """The kind of block that the next piece begins in."""
        return self._open[-1].kind if self._open else Block.PROSE

    def feed(self, piece: str) -> None:
        """Follow the text over one more piece. Mutates."""
        text, done = self._tail + piece, 0
        while found := self._pattern().search(text, done):
            self._read(found.group())
            done = found.end()
        self._tail = text[max(done, len(text) - _LONGEST) :]

    def _pattern(self) -> re.Pattern[str]:
        if self._in_json:
            return _INSIDE_STRING if self._in_string else _INSIDE_JSON
        return _INSIDE_CALL if self.block is Block.CALL else _OUTSIDE

    def _read(self, mark: str) -> None:
        if mark in TURN_ENDS:
            self._close(len(self._open))
        elif self._in_json:
            self._read_json(mark)
        elif mark in _OPENED:
            closing, kind = _OPENED[mark]
            self._open.append(_Open(kind, closing))
            self.changes += 1
        elif mark.endswith('"'):
            self._begin_json(mark)
        else:
            depth = next((i for i, one in enumerate(reversed(self._open), start=1) if one.closing == mark), 0)
            self._close(depth)

    def _close(self, blocks: int) -> None:
        """Close the innermost blocks."""
        if blocks:
            del self._open[len(self._open) - blocks :]
            self.changes += 1
            self._in_json = self._in_string = False

    def _begin_json(self, mark: str) -> None:
        # JSON in reasoning or in what a tool answered belongs to that block.
        if not self._open:
            self._open += [_Open(Block.CALL, _CLOSING[bracket]) for bracket in mark if bracket in _CLOSING]
            self._in_json = self._in_string = True
            self.changes += 1

    def _read_json(self, mark: str) -> None:
        if mark == "\n":
            # JSON strings hold no raw line ends: this was something else.
            self._close(len(self._open))
        elif mark == '"':
            self._in_string = not self._in_string
        elif mark in _CLOSING:
            self._open.append(_Open(Block.CALL, _CLOSING[mark]))
        elif mark in _CLOSING.values():
            if mark != self._open[-1].closing:
                self._close(len(self._open))
            elif len(self._open) == 1:
                self._close(1)
            else:
                self._open.pop()
