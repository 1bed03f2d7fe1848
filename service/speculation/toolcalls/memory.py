"""What a tenant's past calls tell about the next one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from service.speculation.toolcalls.place import Frame

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CLOSE = ""
"""Stands for the closing brace among the keys that follow a key."""


class Recent(Generic[K, V]):
    """A mapping that forgets what was unused for longest when it holds more than `limit` items."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        """The item, or None; it counts as used."""
        item = self._items.get(key)
        if item is not None:
            self._items.move_to_end(key)
        return item

    def put(self, key: K, item: V) -> None:
        """Store the item."""
        self._items[key] = item
        self._items.move_to_end(key)
        if len(self._items) > self._limit:
            self._items.popitem(last=False)

    def at(self, key: K, create: Callable[[], V]) -> V:
        """The item, created when it is not there."""
        item = self.get(key)
        if item is None:
            item = create()
            self.put(key, item)
        return item


class Tally:
    """How often each of a few texts was seen, the recent ones counting more; at most `limit` texts."""

    def __init__(self, limit: int = 8, keep: float = 0.9) -> None:
        self._counts: Recent[str, float] = Recent(limit)
        self._keep = keep
        self.total = 0.0

    def add(self, text: str) -> None:
        """Count the text once more."""
        counts = {known: count * self._keep for known, count in self.counts().items()}
        counts[text] = counts.get(text, 0.0) + 1.0
        for known, count in counts.items():
            if known != text:
                self._counts.put(known, count)
        self._counts.put(text, counts[text])
        self.total = sum(self.counts().values())

    def counts(self) -> dict[str, float]:
        """Weight by text, the latest last."""
        return dict(self._counts._items)


class CallMemory:
    """Tallies over a tenant's calls: keys behind keys, values of parameters, white space, ways to open a call.

    Bounded: some thousand places, a few texts each; values longer than `longest` characters are not kept.
    """

    def __init__(self, places: int = 2048, longest: int = 256) -> None:
        self._longest = longest
        self._keys: Recent[Hashable, Tally] = Recent(places)
        self._values: Recent[Hashable, Tally] = Recent(places)
        self._gaps: Recent[Hashable, str] = Recent(places)
        self.trust: dict[Hashable, list[float]] = {}
        self.openings = Tally()
        self.encoded: Recent[Hashable, tuple[tuple[int, int], ...]] = Recent(places)
        self.pieces: Recent[int, str] = Recent(4 * places)
        self._splits: Recent[tuple[int, int], dict[int, float]] = Recent(places)

    def keys(self, frame: Frame) -> dict[str, float]:
        """Weights of the keys that followed the latest key of such an object; CLOSE for its end."""
        tally = self._keys.get(_spot(frame))
        return {} if tally is None else tally.counts()

    def learn_key(self, frame: Frame, key: str) -> None:
        """A key, or CLOSE, followed the latest key of the object."""
        self._keys.at(_spot(frame), Tally).add(key)

    def values(self, frame: Frame) -> dict[str, float]:
        """Weights of the JSON texts that the latest key's value had, or that items of the array had."""
        tally = self._values.get(_spot(frame))
        return {} if tally is None else tally.counts()

    def learn_value(self, frame: Frame, raw: str) -> None:
        """A value was written."""
        if len(raw) <= self._longest:
            self._values.at(_spot(frame), Tally).add(raw)

    def first(self, before: int, token: int) -> dict[int, float]:
        """Shares of the tokens that are written where `token` would be, behind `before`: itself or its beginnings."""
        counts = self._splits.get((before, token))
        total = 0.0 if counts is None else sum(counts.values())
        return {token: 1.0} if counts is None else {one: count / total for one, count in counts.items()}

    def learn_first(self, before: int, token: int, written: int) -> None:
        """`written`, which is `token` or begins it, was written behind `before`."""
        counts = self._splits.get((before, token))
        if counts is None and token != written:
            self._splits.put((before, token), {token: 0.5, written: 1.0})
        elif counts is not None:
            for known in counts:
                counts[known] *= 0.8
            counts[written] = counts.get(written, 0.0) + 1.0

    def gap(self, joint: Hashable) -> str | None:
        """The white space last seen at such a joint."""
        return self._gaps.get(joint)

    def learn_gap(self, joint: Hashable, gap: str) -> None:
        """White space was written at a joint."""
        self._gaps.put(joint, gap)


def _spot(frame: Frame) -> Hashable:
    """What makes two places in calls alike: tool, path and latest key; for the frame of a call the key alone."""
    return ("call", frame.last) if frame.call else (frame.tool, frame.path, frame.kind, frame.last)
