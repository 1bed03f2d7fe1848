"""White space in a call: what this text, past calls and custom say it will be."""

from __future__ import annotations

from collections.abc import Hashable

from service.speculation.toolcalls.memory import CallMemory
from service.speculation.toolcalls.place import At, Frame, Place

INDENT = 4


OWN, PAST, CUSTOM = "own", "past", "custom"
PRIORS = {OWN: (12.0, 0.3), PAST: (4.0, 0.5), CUSTOM: (1.4, 0.6)}
"""How often what this text, past calls or custom say held and failed, before anything was seen."""


class Style:
    """The gaps of one text, learnt joint by joint; what it has not shown yet comes from the tenant's past calls.

    Models differ in one thing above all: the same call on one line, or indented. So gaps are remembered relative to
    the gap that began the frame they stand in. How much to trust them is counted as well: a grammar that allows any
    white space leaves small models wavering.
    """

    def __init__(self, memory: CallMemory) -> None:
        self._memory = memory
        self._own: dict[Hashable, str] = {}
        self._counts: dict[Hashable, list[float]] = {}

    def learn(self, place: Place, char: str) -> None:
        """The gap of `place` ended with `char`."""
        joint = _joint(place, char)
        if joint is None or len(place.gap) > 64:
            return
        known, origin = self._known(place._replace(gap=""), char, joint)
        counts = self._counted(origin, joint)
        counts[0 if known[0] == place.gap else 1] += 1
        self._own[joint] = place.gap
        self._memory.learn_gap(joint, place.gap)

    def heed(self, rule: str, kept: bool) -> None:
        """The text kept to the schema in this respect, or did not: few grammars enforce schemas that are not strict."""
        for counts in (self._counts, self._memory.trust):
            counts.setdefault(rule, [0.0, 0.0])[0 if kept else 1] += 1

    def trust(self, rule: str) -> float:
        """The chance that the text keeps to the schema in this respect once more: its own record, then past calls'."""
        kept, broken = self._memory.trust.get(rule, (0.0, 0.0))
        usual = (kept + 8) / (kept + broken + 8)
        kept, broken = self._counts.get(rule, (0.0, 0.0))
        return (kept + 2 * usual) / (kept + broken + 2)

    def _known(self, place: Place, char: str, joint: tuple[Hashable, ...]) -> tuple[tuple[str, ...], str]:
        own = self._own.get(joint)
        if own is not None:
            return (own,), OWN
        past = self._memory.gap(joint)
        return (_custom(place, char), CUSTOM) if past is None else ((past,), PAST)

    def _counted(self, origin: str, joint: tuple[Hashable, ...]) -> list[float]:
        """How often an origin was right and wrong at such joints; a text's own habits count for that text."""
        counts = self._counts if origin == OWN else self._memory.trust
        return counts.setdefault((origin, joint[0]), list(PRIORS[origin]))

    def gap(self, place: Place, char: str) -> tuple[str, float]:
        """The likeliest gap that is still to come at `place` before `char`, and its chance."""
        return self.gaps(place, char)[0]

    def gaps(self, place: Place, char: str) -> list[tuple[str, float]]:
        """The gaps that may still come at `place` before `char`, with their chances; at least one, likeliest first."""
        joint = _joint(place, char)
        if joint is None:
            return [("", 1.0)]
        known, origin = self._known(place, char, joint)
        right, wrong = self._counted(origin, joint)
        sure = right / (right + wrong)
        written = place.gap
        return [
            (gap[len(written) :], 0.97 if gap == written != "" else chance)
            for gap, chance in zip(known, (sure, (1.0 - sure) / 2), strict=False)
            if gap.startswith(written)
        ] or [("", 0.5)]


def _joint(place: Place, char: str) -> tuple[Hashable, ...] | None:
    """Joints that are alike carry the same gap; None where there never is one."""
    frame = place.frame
    inner = "" if frame is None else frame.inner
    outer = "" if frame is None or frame.parent is None else frame.parent.inner
    if place.at is At.OPEN:
        return ("open", frame.kind if frame else "", frame.call if frame else False, outer, char in ("}", "]"))
    if place.at is At.AFTER and char in ("}", "]"):
        return ("close", inner, outer)
    if place.at is At.NEXT or (place.at is At.VALUE and frame is not None and frame.kind == "array"):
        return ("next", inner)
    if place.at is At.VALUE:
        return ("colon", frame.last if frame.call else char in ("{", "[")) if frame else ("root",)
    # What stands before a call's JSON stands behind it too: both marks on lines of their own, or neither.
    return ("root",) if place.at is At.DONE else None


def _custom(place: Place, char: str) -> tuple[str, ...]:
    """What is usual: one line with spaces behind colons and commas, or every member on a line of its own."""
    frame = place.frame
    if frame is None:
        return ("",)
    outer = "" if frame.parent is None else frame.parent.inner
    if place.at is At.OPEN:
        return ("",) if char in ("}", "]") else _opening(frame, outer)
    if place.at is At.AFTER:
        return (("\n" if frame.parent is None else outer) if "\n" in frame.inner else "",)
    if place.at is At.NEXT or frame.kind == "array":
        return (frame.inner,) if "\n" in frame.inner else (" ", "")
    return (" ", "")


def _opening(frame: Frame, outer: str) -> tuple[str, ...]:
    """Before the first member: nothing on one line, else one step further in than the parent's members, or no step."""
    if "\n" not in outer:
        return ("", "\n") if frame.parent is None else ("",)
    above = None if frame.parent is None or frame.parent.parent is None else frame.parent.parent.inner
    if above is None or "\n" not in above:
        return outer + " " * INDENT, outer
    step = len(outer) - len(above)
    return (outer + " " * step,) if step > 0 else (outer, outer + " " * INDENT)
