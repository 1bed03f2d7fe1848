"""Candidate texts behind a place, grown option by option, the likeliest first."""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

from service.speculation.toolcalls.options import SCAFFOLD, Option, Options
from service.speculation.toolcalls.place import At, Place

CHARACTERS_PER_NODE = 4
"""A guess at the length of a token."""


class Step(NamedTuple):
    """One option on a candidate's way: where its text ends, the chance to get there, and who proposed it.

    Candidates with a common beginning share its steps.
    """

    end: int
    chance: float
    source: str


class Candidate(NamedTuple):
    """A text that may come next, and a character that may follow it (empty where its end is the end)."""

    text: str
    steps: tuple[Step, ...]
    place: Place | None
    chance: float = 1.0

    @property
    def probe(self) -> str:
        """What the text may go on with, to see whether its last token would swallow it."""
        if self.place is None or self.place.at is At.DONE:
            return ""
        if self.place.at is At.STRING:
            return "a"
        return "1" if self.place.at is At.VALUE else ""


def expand(options: Options, first: Candidate, nodes: int, floor: float) -> list[Candidate]:
    """The likeliest candidates that begin with `first` and together fill about `nodes` nodes of a tree.

    Nothing that has less than `floor` chance is followed.
    """
    order = count()
    heap = [(-first.chance, next(order), first, first)]
    leaves: dict[int, Candidate] = {}
    left = float(nodes)
    while heap and left > 0:
        _, _, candidate, shorter = heapq.heappop(heap)
        left -= (len(candidate.text) - len(shorter.text)) / CHARACTERS_PER_NODE
        leaves.pop(id(shorter), None)
        leaves[id(candidate)] = candidate
        for longer in _grown(options, candidate, floor) if left > 0 else ():
            heapq.heappush(heap, (-longer.chance, next(order), longer, candidate))
    return [leaf for leaf in leaves.values() if leaf.text]


def _grown(options: Options, candidate: Candidate, floor: float) -> list[Candidate]:
    if candidate.place is None:
        return []
    return [
        longer for option in options.at(candidate.place) if (longer := _appended(candidate, option)).chance >= floor
    ]


def _appended(candidate: Candidate, option: Option) -> Candidate:
    text, chance = candidate.text + option.text, candidate.chance * option.chance
    # What is forced behind a guess stands and falls with the guess.
    guess = candidate.steps[-1].source if candidate.steps else SCAFFOLD
    source = guess if option.source == SCAFFOLD else option.source
    return Candidate(text, (*candidate.steps, Step(len(text), chance, source)), option.place, chance)
