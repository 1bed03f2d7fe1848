"""What the schemas and past calls say may be written next, with chances."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from service.speculation.toolcalls.formats import FORMATS, Format
from service.speculation.toolcalls.memory import CLOSE, CallMemory
from service.speculation.toolcalls.place import At, Frame, Grammar, Place
from service.speculation.toolcalls.schema import Schema
from service.speculation.toolcalls.style import Style

SCAFFOLD = "scaffold"
CHOICE = "choice"
RETRIEVAL = "retrieval"

PRIOR = 2.0
"""Weight of what the schema alone says, counted in past calls."""
NEXT_REQUIRED, NEXT_OPTIONAL = 0.95, 0.5
"""Chances that the next parameter in the schema's order is the next one written."""
CALL_KEY = 0.97
"""Chance that a call goes on with the key that its format has there."""
FORCED = 0.9
"""Shares from here on count as no choice."""
STRING_ENDS, NUMBER_ENDS = 0.25, 0.6
"""Chances, once something of a free value is written, that it is complete."""


class Option(NamedTuple):
    """A text that may come next, its chance, what proposes it, and the place behind it (None: not known)."""

    text: str
    chance: float
    source: str
    place: Place | None


class Options:
    """Lists options at a place, at most `most`: of many tools those used most. `format` is set from outside."""

    def __init__(self, grammar: Grammar, memory: CallMemory, style: Style, most: int = 8) -> None:
        self._grammar = grammar
        self._memory = memory
        self._style = style
        self._most = most
        self.format: Format = FORMATS[0]

    def at(self, place: Place) -> list[Option]:
        """The options, the likeliest first; they need not add up to 1."""
        lister = LISTERS.get(place.at)
        options = [] if lister is None else [option for option in lister(self, place) if option.text]
        return sorted(options, key=lambda option: -option.chance)[: self._most] if len(options) > 1 else options

    def _value(self, place: Place, gapped: bool = False) -> Iterator[Option]:
        """White space and a value's beginning, or a whole value where the schema or past calls know some."""
        frame, schema = place.frame, place.schema
        kind = schema.only
        gap, chance = ("", 1.0) if gapped else self._style.gap(place, _first_char(schema))
        if not schema.choices and schema is not self._grammar.call and frame is not None:
            chance *= self._style.trust("types")
        known = self._values(frame, schema)
        for raw, share in known.items():
            yield Option(gap + raw, chance * share, _source(schema, share), self._grammar.ended(frame, raw))
        left = max(0.0, 1.0 - sum(known.values()))
        if kind in ("object", "array"):
            opened = self._grammar.opened(frame, schema, kind)
            yield Option(gap + ("{" if kind == "object" else "["), chance * left, _forced(chance * left), opened)
        elif kind == "string" and not schema.choices:
            inside = Place(At.STRING, frame, schema, '"')
            yield Option(gap + '"', chance * left, _forced(chance), inside)
        elif gap and not schema.choices:
            after = Place(At.VALUE, frame, schema, gap=place.gap + gap)
            yield Option(gap, chance * left, _forced(chance), after)

    def _begun(self, place: Place) -> Iterator[Option]:
        """The rest of a value of which something is written."""
        shares = self._values(place.frame, place.schema)
        fitting = {raw: share for raw, share in shares.items() if raw.startswith(place.part) and raw != place.part}
        total = sum(fitting.values())
        scale = 0.98 / total if total else 0.0
        if place.free:
            # What was written speaks for the past values that begin like it, the more of it the more.
            doubt = (1.0 - sum(shares.values())) * 0.5 ** (len(place.part) - 1) + 0.05
            scale = 1.0 / (total + doubt)
        for raw, share in fitting.items():
            after = self._grammar.ended(place.frame, raw)
            chance = share * scale
            yield Option(raw[len(place.part) :], chance, _source(place.schema, chance), after)
        if place.free:
            yield from self._ended(place, 1.0 - total * scale)

    def _ended(self, place: Place, chance: float) -> Iterator[Option]:
        """What follows if a free value is complete already."""
        if place.at is At.STRING and len(place.part) > 1 and not place.part.endswith("\\"):
            after = self._grammar.ended(place.frame, place.part + '"')
            yield Option('"', chance * STRING_ENDS, CHOICE, after)
        elif place.at is At.SCALAR and place.part[-1].isalnum():
            for option in self.at(self._grammar.ended(place.frame, place.part)):
                yield option._replace(chance=option.chance * chance * NUMBER_ENDS, source=CHOICE)

    def _first(self, place: Place) -> Iterator[Option]:
        frame = place.frame
        if frame is None:
            return
        if frame.kind == "object":
            yield from self._keys(place, frame, "")
            return
        item = self._grammar.child(frame)
        for gap, chance in self._style.gaps(place, ""):
            inner = frame._replace(inner=place.gap + gap)
            if not item.types:
                yield Option(gap, chance, CHOICE, Place(At.OPEN, frame, gap=place.gap + gap))
            for option in self._value(Place(At.VALUE, inner, item, gap=inner.inner), gapped=True):
                source = option.source if chance >= FORCED else CHOICE
                yield Option(gap + option.text, option.chance * chance, source, option.place)

    def _key(self, place: Place) -> Iterator[Option]:
        if place.frame is None:
            return
        shares = {key: share for key, share in self.shares(place.frame).items() if key.startswith(place.part)}
        total = sum(share for key, share in shares.items() if key)
        for key, share in shares.items():
            if key:
                after = self._grammar.valued(self._grammar.keyed(place.frame, key).frame)
                rest = _key_text(key)[len(place.part) :]
                yield Option(f'{rest}":', 0.98 * share / total, _forced(share / total), after)

    def _colon(self, place: Place) -> Iterator[Option]:
        yield Option(":", 0.98, SCAFFOLD, self._grammar.valued(place.frame))

    def _next(self, place: Place) -> Iterator[Option]:
        if place.frame is not None:
            yield from self._keys(place, place.frame, "", closing=False)

    def _after(self, place: Place) -> Iterator[Option]:
        frame = place.frame
        if frame is None:
            return
        if frame.kind == "object":
            yield from self._keys(Place(At.NEXT, frame, gap=place.gap), frame, ",")
            return
        again = 0.3 if frame.schema.items is self._grammar.call else 0.5
        if not place.gap:
            gap, chance = self._style.gap(self._grammar.valued(frame), "")
            after = Place(At.VALUE, frame, self._grammar.child(frame), gap=gap)
            yield Option("," + gap, again * chance, CHOICE, after)
        yield self._close(place, frame, 0.97 if place.gap else 1.0 - again)

    def _keys(self, place: Place, frame: Frame, comma: str, closing: bool = True) -> Iterator[Option]:
        """Keys of the object, with what stands before them, and its end where that is possible."""
        first = place.at is At.OPEN
        if comma and place.gap:
            # White space stands before an end only, never before a comma.
            yield self._close(Place(At.AFTER, frame, gap=place.gap), frame, 0.97)
            return
        for key, share in self.shares(frame, closing).items():
            if not key:
                yield self._close(place if first else Place(At.AFTER, frame, gap=place.gap), frame, share)
                continue
            for gap, chance in self._style.gaps(place, '"'):
                begun = frame._replace(inner=place.gap + gap) if first else frame
                after = self._grammar.valued(self._grammar.keyed(begun, key).frame)
                yield Option(f'{comma}{gap}"{_key_text(key)}":', share * chance, _forced(share * chance), after)

    def _close(self, place: Place, frame: Frame, share: float) -> Option:
        bracket = "}" if frame.kind == "object" else "]"
        gap, chance = self._style.gap(place, bracket)
        return Option(gap + bracket, share * chance, _forced(share * chance), self._grammar.ended(frame.parent, ""))

    def _done(self, place: Place) -> Iterator[Option]:
        gap, chance = self._style.gap(place, self.format.end)
        if self.format.end:
            yield Option(gap + self.format.end, chance, SCAFFOLD, None)

    def shares(self, frame: Frame, closing: bool = True) -> dict[str, float]:
        """The chance of each key to come next, CLOSE for none: the schema's order and past calls together."""
        shares = self._custom(frame)
        past = {
            key: count
            for key, count in self._memory.keys(frame).items()
            if key in shares or (not frame.schema.keys and not frame.call and key not in frame.seen)
        }
        total = sum(past.values()) + (PRIOR if shares else 0.5)
        prior = PRIOR if shares else 0.5
        mixed = {
            key: (past.get(key, 0.0) + prior * shares.get(key, 0.0)) / total for key in dict.fromkeys([*shares, *past])
        }
        if not closing:
            mixed.pop(CLOSE, None)
            scale = 1.0 / (sum(mixed.values()) or 1.0)
            mixed = {key: share * scale for key, share in mixed.items()}
        return mixed

    def _custom(self, frame: Frame) -> dict[str, float]:
        """Chances by the schema's order alone: the next parameter, optional ones skipped, and at last the end."""
        if frame.call:
            following = {"": "name", "name": self.format.arguments}
            return {following.get(frame.last, CLOSE): CALL_KEY}
        shares: dict[str, float] = {}
        left = 1.0
        for key in _in_order(frame):
            take = left * (NEXT_REQUIRED if key in frame.schema.required else NEXT_OPTIONAL)
            shares[key], left = take, left - take
            if left < 0.02:
                break
        if frame.schema.keys and not frame.schema.required - set(frame.seen):
            shares[CLOSE] = left
        trust = self._style.trust("keys")
        return {key: share * trust for key, share in shares.items()}

    def _values(self, frame: Frame | None, schema: Schema) -> dict[str, float]:
        """Whole values with their chances: the schema's choices weighed by past calls, else past values."""
        past = {} if frame is None else self._memory.values(frame)
        choices = schema.choices or (("true", "false") if schema.only == "boolean" else ())
        total = sum(past.values())
        if choices:
            even = PRIOR / len(choices)
            return {raw: (past.get(raw, 0.0) + even) / (total + PRIOR) for raw in choices}
        return {raw: count / (total + PRIOR) for raw, count in past.items() if _fits(raw, schema)}


LISTERS: dict[At, Callable[[Options, Place], Iterator[Option]]] = {
    At.VALUE: Options._value,
    At.STRING: Options._begun,
    At.SCALAR: Options._begun,
    At.OPEN: Options._first,
    At.KEY: Options._key,
    At.COLON: Options._colon,
    At.NEXT: Options._next,
    At.AFTER: Options._after,
    At.DONE: Options._done,
}


def _source(schema: Schema, share: float) -> str:
    return _forced(share) if schema.choices or schema.only == "boolean" else RETRIEVAL


def _forced(share: float) -> str:
    """What the schema leaves no other way for, or a choice among several."""
    return SCAFFOLD if share >= FORCED else CHOICE


def _in_order(frame: Frame) -> list[str]:
    """The keys not yet seen: those behind the latest one in the schema's order first."""
    order = frame.schema.keys
    start = order.index(frame.last) + 1 if frame.last in order else 0
    return [key for key in order[start:] + order[:start] if key not in frame.seen]


def _fits(raw: str, schema: Schema) -> bool:
    """Whether a past value is of the schema's type, which may have changed since."""
    first = raw[:1]
    kinds = {'"': "string", "t": "boolean", "f": "boolean", "n": "null"}
    kind = kinds.get(first, "number")
    return (
        not schema.types or kind in schema.types or (kind == "number" and "integer" in schema.types and "." not in raw)
    )


def _first_char(schema: Schema) -> str:
    return {"object": "{", "array": "[", "string": '"'}.get(schema.only or "", "")


def _key_text(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)[1:-1]
