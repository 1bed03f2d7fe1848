"""Where in the JSON of a call the text stands: a pushdown automaton over characters that knows the schemas."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import Enum

from service.speculation.toolcalls.schema import ANY, Schema, Toolbox

SPACE = " \t\r\n"
PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
SCALAR = re.compile(r"[-+.0-9a-zA-Z]+")


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


@dataclass(frozen=True, slots=True)
class Frame:
    """An open object or array. `seen` are an object's keys so far, `count` an array's items, `inner` is the white space
    before the first of them.

    A call is an object whose keys are those of a call; `tool` is its name once that was written.
    """

    schema: Schema
    kind: str
    parent: Frame | None
    path: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    count: int = 0
    tool: str | None = None
    call: bool = False
    inner: str = ""

    @property
    def last(self) -> str:
        """The latest key; empty before the first."""
        return self.seen[-1] if self.seen else ""


@dataclass(frozen=True, slots=True)
class Place:
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

    def step(self, place: Place, char: str) -> Place | None:
        """The place behind one more character; None where JSON allows it not."""
        at = place.at
        if at is At.STRING or at is At.KEY:
            return self._inside(place, char)
        if at is At.SCALAR:
            if SCALAR.match(char):
                return replace(place, part=place.part + char)
            return self.step(self.ended(place.frame, place.part), char)
        if char in SPACE:
            return None if at is At.DONE else replace(place, gap=place.gap + char)
        frame = place.frame
        if at is At.OPEN and frame is not None and place.gap:
            frame = replace(frame, inner=place.gap)
            place = Place(At.OPEN, frame, place.schema)
        if at is At.COLON:
            return self.valued(frame) if char == ":" and frame is not None else None
        if at is At.AFTER and frame is not None:
            if char == ",":
                return self.valued(frame) if frame.kind == "array" else Place(At.NEXT, frame)
            return self._closed(frame, char)
        if at is At.OPEN and frame is not None and char in "]}":
            return self._closed(frame, char)
        if at is At.NEXT or (at is At.OPEN and frame is not None and frame.kind == "object"):
            return Place(At.KEY, frame) if char == '"' else None
        if at is At.VALUE or at is At.OPEN:
            return self._begun(place, char)
        return None

    def walk(self, place: Place | None, text: str) -> Place | None:
        """The place behind a text; None when it breaks JSON."""
        i = 0
        while place is not None and i < len(text):
            if place.at in (At.STRING, At.KEY) and (plain := PLAIN.match(text, i)) and not _escaping(place.part):
                place = replace(place, part=place.part + plain[0])
                i = plain.end()
            else:
                place = self.step(place, text[i])
                i += 1
        return place

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
        if frame.kind == "array":
            return Place(At.AFTER, replace(frame, count=frame.count + 1))
        if frame.call and frame.last == "name":
            return Place(At.AFTER, replace(frame, tool=_plain(raw)))
        return Place(At.AFTER, frame)

    def keyed(self, frame: Frame, key: str) -> Place:
        """The place behind a complete key."""
        return Place(At.COLON, replace(frame, seen=(*frame.seen, key)))

    def _inside(self, place: Place, char: str) -> Place | None:
        if char == '"' and not _escaping(place.part):
            if place.at is At.KEY and place.frame is not None:
                return self.keyed(place.frame, _plain(f'"{place.part}"'))
            return self.ended(place.frame, place.part + '"')
        return None if char < " " else replace(place, part=place.part + char)

    def _begun(self, place: Place, char: str) -> Place | None:
        schema = self.child(place.frame) if place.at is At.OPEN and place.frame is not None else place.schema
        if char == '"':
            return Place(At.STRING, place.frame, schema, char)
        if char in "{[":
            kind = "object" if char == "{" else "array"
            return self.opened(place.frame, schema if schema.only in (None, kind) else ANY, kind)
        return Place(At.SCALAR, place.frame, schema, char) if char in "-0123456789tfn" else None

    def _closed(self, frame: Frame, char: str) -> Place | None:
        return self.ended(frame.parent, "") if char == ("}" if frame.kind == "object" else "]") else None


def _escaping(part: str) -> bool:
    """Whether the text ends in a backslash that escapes the next character."""
    return part.endswith("\\") and (len(part) - len(part.rstrip("\\"))) % 2 == 1


def _plain(raw: str) -> str:
    """The string that a JSON string means; its raw text where it is none."""
    try:
        return str(json.loads(raw))
    except ValueError:
        return raw
