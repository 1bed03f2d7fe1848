"""Where in the JSON of a call the text stands: a pushdown automaton over characters that knows the schemas."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import NamedTuple

from service.speculation.toolcalls.schema import ANY, Schema, Toolbox

PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
SCALAR = re.compile(r"[-+.0-9a-zA-Z]+")
SPACE = re.compile(r"[ \t\r\n]+")


class At(Enum):
    """What may come next."""

    VALUE = "a value"
    STRING = "the inside of a string value"
    SCALAR = "the rest of a number, true, false or null"
    OPEN = "the first key or item, or the end"
    KEY = "the inside of a key"
    COLON = "the colon behind a key"
    NEXT = "a key behind a comma"
    AFTER = "a comma or the end"
    DONE = "nothing: the value is complete"


class Frame(NamedTuple):
    """An open object or array. `seen` are an object's keys so far, `inner` is the white space before the first member.

    A call is an object whose keys are those of a call; `tool` is its name once that was written.
    """

    schema: Schema
    kind: str
    parent: Frame | None
    path: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    tool: str | None = None
    call: bool = False
    inner: str = ""

    @property
    def last(self) -> str:
        """The latest key; empty before the first."""
        return self.seen[-1] if self.seen else ""


class Place(NamedTuple):
    """A state of the automaton. `part` is the raw text of the key or value that is being written, `gap` the white space
    since the last other character; `schema` belongs to the value that is expected or being written."""

    at: At
    frame: Frame | None
    schema: Schema = ANY
    part: str = ""
    gap: str = ""

    @property
    def free(self) -> bool:
        """Whether the text goes on with what no schema decides."""
        return self.at in (At.STRING, At.SCALAR) and not self.schema.choices and self.schema.only != "boolean"


class Grammar:
    """Steps of the automaton for one request's tools."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self.call = Schema(frozenset({"object"}))
        self.calls = Schema(frozenset({"array"}), items=self.call)

    def root(self, many: bool) -> Place:
        """The place where a call, or a list of calls, begins."""
        return Place(At.VALUE, None, self.calls if many else self.call)

    def child(self, frame: Frame) -> Schema:
        """The schema of the value behind the latest key, or of the next item."""
        if frame.kind == "array":
            return frame.schema.items
        if not frame.call:
            return frame.schema.member(frame.last)
        if frame.last == "name":
            return self._toolbox.name
        return self._toolbox.arguments(frame.tool) if frame.last in ("arguments", "parameters") else ANY

    def walk(self, place: Place | None, text: str) -> Place | None:
        """The place behind a text; None when it breaks JSON."""
        i = 0
        while place is not None and i < len(text):
            place, i = self.step(place, text, i)
        return place

    def step(self, place: Place, text: str, i: int) -> tuple[Place | None, int]:
        """The place behind the next character of `text`, or behind a run of like ones, and where the text goes on.

        The place is None where JSON allows the character not.
        """
        at = place.at
        if at is At.STRING or at is At.KEY:
            plain = None if _escaping(place.part) else PLAIN.match(text, i)
            if plain is None:
                return self._special(place, text[i]), i + 1
            return Place(at, place.frame, place.schema, place.part + plain[0]), plain.end()
        if at is At.SCALAR:
            if more := SCALAR.match(text, i):
                return Place(at, place.frame, place.schema, place.part + more[0]), more.end()
            place = self.ended(place.frame, place.part)
        elif at is At.DONE:
            return None, i + 1
        if space := SPACE.match(text, i):
            return Place(place.at, place.frame, place.schema, gap=place.gap + space[0]), space.end()
        return self._sign(place, text[i]), i + 1

    def _sign(self, place: Place, char: str) -> Place | None:
        """The place behind a character that is neither white space nor in a string or scalar."""
        at, frame = place.at, place.frame
        if at is At.VALUE or frame is None:
            return self._begun(place, char) if at is At.VALUE else None
        if at is At.COLON:
            return self.valued(frame) if char == ":" else None
        if at is At.NEXT:
            return Place(At.KEY, frame) if char == '"' else None
        if at is At.AFTER and char == ",":
            return self.valued(frame) if frame.kind == "array" else Place(At.NEXT, frame)
        if char == ("}" if frame.kind == "object" else "]"):
            return self.ended(frame.parent, "")
        if at is At.AFTER:
            return None
        frame = frame._replace(inner=place.gap) if place.gap else frame
        if frame.kind == "object":
            return Place(At.KEY, frame) if char == '"' else None
        return self._begun(self.valued(frame), char)

    def valued(self, frame: Frame | None) -> Place:
        """The place before a value of the frame: behind a colon, or where an item begins."""
        return Place(At.VALUE, frame, ANY if frame is None else self.child(frame))

    def opened(self, frame: Frame | None, schema: Schema, kind: str) -> Place:
        """The place behind the brace or bracket that begins a value."""
        path = () if frame is None or frame.call else (*frame.path, frame.last)
        tool = None if frame is None else frame.tool
        return Place(At.OPEN, Frame(schema, kind, frame, path, tool=tool, call=schema is self.call))

    def ended(self, frame: Frame | None, raw: str) -> Place:
        """The place behind a complete value, whose JSON text is `raw` unless it was an object or array."""
        if frame is None:
            return Place(At.DONE, None)
        if frame.call and frame.last == "name":
            return Place(At.AFTER, frame._replace(tool=_plain(raw)))
        return Place(At.AFTER, frame)

    def keyed(self, frame: Frame, key: str) -> Place:
        """The place behind a complete key."""
        return Place(At.COLON, frame._replace(seen=(*frame.seen, key)))

    def _special(self, place: Place, char: str) -> Place | None:
        """The place behind a character of a key or string that is a quote, escape, escaped or control character."""
        if char == '"' and not _escaping(place.part):
            if place.at is At.KEY and place.frame is not None:
                return self.keyed(place.frame, _plain(f'"{place.part}"'))
            return self.ended(place.frame, place.part + '"')
        return None if char < " " else Place(place.at, place.frame, place.schema, place.part + char)

    def _begun(self, place: Place, char: str) -> Place | None:
        frame, schema = place.frame, place.schema
        if char == '"':
            return Place(At.STRING, frame, schema, char)
        if char in ("{", "["):
            kind = "object" if char == "{" else "array"
            return self.opened(frame, schema if schema.only in (None, kind) else ANY, kind)
        return Place(At.SCALAR, frame, schema, char) if char in "-0123456789tfn" else None


def _escaping(part: str) -> bool:
    """Whether the text ends in a backslash that escapes the next character."""
    return part.endswith("\\") and (len(part) - len(part.rstrip("\\"))) % 2 == 1


def _plain(raw: str) -> str:
    """The string that a JSON string means; its raw text where it is none."""
    try:
        return str(json.loads(raw))
    except ValueError:
        return raw
