"""Follows the committed text of an answer through its tool calls and remembers what they were like."""

from __future__ import annotations

from service.speculation.toolcalls.formats import LONGEST, Format, opening
from service.speculation.toolcalls.memory import CLOSE, CallMemory
from service.speculation.toolcalls.place import At, Grammar, Place
from service.speculation.toolcalls.schema import ANY, Schema
from service.speculation.toolcalls.style import Style


class Reader:
    """Knows at any time whether the text stands in a call, and where in it. Only committed text moves it.

    `place` is None outside calls; `tail` is then the end of the text that may begin a mark, and behind a complete
    call the text since its JSON ended. `calls` counts complete calls; `begun` tells that the answer has begun, so that
    only a mark can open a call.
    """

    def __init__(self, grammar: Grammar, memory: CallMemory, style: Style) -> None:
        self._grammar = grammar
        self._memory = memory
        self._style = style
        self.place: Place | None = None
        self.format: Format | None = None
        self.tail = ""
        self.begun = False
        self.calls = 0

    def feed(self, text: str) -> None:
        """Read on. Mutates the reader and the memory."""
        while text:
            text = self._outside(text) if self.place is None else self._inside(self.place, text)

    @property
    def inside(self) -> bool:
        """Whether the text stands in the JSON of a call or before the mark that ends it."""
        return self.place is not None

    def _outside(self, text: str) -> str:
        self.tail += text
        found = opening(self.tail, not self.begun)
        if found is None:
            if len(self.tail) > LONGEST or self.tail.strip()[:1] not in ("", "["):
                if not self.begun:
                    self._memory.openings.add("")
                self.begun = True
            self.tail = self.tail[-LONGEST:]
            return ""
        self.format, at = found
        rest = self.tail[at:]
        if not self.calls:
            self._memory.openings.add(self.format.name)
        self.begun, self.tail = True, ""
        self.place = self._grammar.root(self.format.many)
        return rest

    def _inside(self, place: Place, text: str) -> str:
        if place.at is At.DONE:
            return self._behind(text)
        self.place, read = self._grammar.step(place, text, 0)
        if self.place is None:
            self.tail = ""
            return text
        if self.place.at is not place.at or self.place.frame is not place.frame:
            self._learn(place, self.place, text[0])
        return text[read:]

    def _behind(self, text: str) -> str:
        """Behind the JSON of a call: wait for the mark that ends it, or see that it does not come."""
        assert self.format is not None
        self.tail += text
        rest, end = self.tail.lstrip(), self.format.end
        if end and end.startswith(rest):
            return ""
        self.calls += 1
        gap = self.tail[: len(self.tail) - len(rest)]
        self._style.learn(Place(At.DONE, None, ANY, gap=gap), end[:1])
        self.place, self.tail = None, ""
        return rest[len(end) :] if end and rest.startswith(end) else gap + rest

    def _learn(self, old: Place, new: Place, char: str) -> None:
        """Remember what one step showed."""
        if old.at in (At.OPEN, At.NEXT, At.VALUE, At.AFTER):
            self._style.learn(old, char)
        if old.at is At.VALUE and old.schema.types:
            self._style.heed("types", _is(char, old.schema))
        before, after = old.frame, new.frame
        if before is None:
            return
        if new.at is At.COLON and after is not None:
            self._memory.learn_key(before, after.last)
            if before.schema.keys:
                self._style.heed("keys", after.last in before.schema.keys)
        elif old.at in (At.STRING, At.SCALAR):
            self._memory.learn_value(before, old.part + ('"' if old.at is At.STRING else ""))
        if before.kind == "object" and after is before.parent:
            self._memory.learn_key(before, CLOSE)


def _is(char: str, schema: Schema) -> bool:
    """Whether a value that begins so can be of the schema's type."""
    kinds = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
    kind = kinds.get(char, "number")
    return kind in schema.types or (kind == "number" and "integer" in schema.types)
