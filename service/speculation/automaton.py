"""A suffix automaton over token texts: every passage that occurred, with how often and what followed it."""

from __future__ import annotations

from collections.abc import Sequence

ROOT_STATE = 0
Cursor = tuple[int, int]
"""A place in an automaton: its state and the number of tokens matched, which is at most the state's length."""

COUNTED_CONTEXTS = 64
# A text of one repeated token has as many contexts as tokens, and counting in all of them would make a token cost
# O(text). The longest ones count; in such a text they decide what is drafted anyway.


class SuffixAutomaton:
    """All passages of one or more texts, extended token by token in amortised constant time.

    A state stands for passages that occur at the same places; `following[s]` are its continuations, `link[s]` is the
    state of the longest shorter suffix that occurs elsewhere too, `length[s]` its longest passage in tokens.
    `seen[s]` counts occurrences, `followed[s]` those that were continued, `latest[s]` is the newest continuation (-1:
    none). The root matches nothing and is not counted. Texts may grow interleaved: each keeps the state of its own
    end. Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985).
    """

    def __init__(self) -> None:
        self.following: list[dict[int, int]] = []
        self.link: list[int] = []
        self.length: list[int] = []
        self.seen: list[int] = []
        self.followed: list[int] = []
        self.latest: list[int] = []
        self._new(0)
        self.link[ROOT_STATE] = -1

    def __len__(self) -> int:
        """The number of states: one to two for a token of new text, none for text that is known."""
        return len(self.link)

    def _new(self, length: int) -> int:
        self.following.append({})
        self.link.append(ROOT_STATE)
        self.length.append(length)
        self.seen.append(0)
        self.followed.append(0)
        self.latest.append(-1)
        return len(self.link) - 1

    def extend(self, end: int, token: int) -> int:
        """Append a token to the text that ends at `end` (the root: a new text); its new end. Mutates."""
        known = self.following[end].get(token)
        if known is None:
            grown = self._new(self.length[end] + 1)
            self._attach(end, token, grown)
        else:
            grown = known if self.length[known] == self.length[end] + 1 else self._split(end, token, known)
        self._count(end, token, grown)
        return grown

    def _attach(self, end: int, token: int, grown: int) -> None:
        """Lead every suffix of the text that never saw `token` to the new state, and link that state."""
        following, link = self.following, self.link
        state = end
        while state >= 0 and token not in following[state]:
            following[state][token] = grown
            state = link[state]
        if state >= 0:
            known = following[state][token]
            exact = self.length[known] == self.length[state] + 1
            link[grown] = known if exact else self._split(state, token, known)

    def _split(self, state: int, token: int, known: int) -> int:
        """Give the passages of `known` that are `state` and `token` a state of their own."""
        following, link = self.following, self.link
        shorter = self._new(self.length[state] + 1)
        following[shorter] = following[known].copy()
        link[shorter], link[known] = link[known], shorter
        self.seen[shorter] = self.seen[known]
        self.followed[shorter] = self.followed[known]
        self.latest[shorter] = self.latest[known]
        while state >= 0 and following[state].get(token) == known:
            following[state][token] = shorter
            state = link[state]
        return shorter

    def _count(self, end: int, token: int, grown: int) -> None:
        link, followed, latest, seen = self.link, self.followed, self.latest, self.seen
        state, left = end, COUNTED_CONTEXTS
        while state > ROOT_STATE and left:
            followed[state] += 1
            latest[state] = token
            state, left = link[state], left - 1
        state, left = grown, COUNTED_CONTEXTS
        while state > ROOT_STATE and left:
            seen[state] += 1
            state, left = link[state], left - 1

    def step(self, cursor: Cursor, token: int) -> Cursor:
        """The longest ending that occurs here after one more token; amortised constant time. Does not mutate."""
        state, matched = cursor
        following, link = self.following, self.link
        while state >= 0:
            reached = following[state].get(token)
            if reached is not None:
                return reached, matched + 1
            state = link[state]
            matched = self.length[state] if state >= 0 else 0
        return ROOT_STATE, 0

    def continued(self, cursor: Cursor) -> Cursor:
        """The longest suffix of the match that was ever continued; the root, where there is none."""
        state, matched = cursor
        while state > ROOT_STATE and not self.following[state]:
            state = self.link[state]
            matched = self.length[state]
        return state, matched

    def at_end(self, end: int) -> Cursor:
        """The cursor of a text that ends at this state."""
        return end, self.length[end]

    def extend_all(self, end: int, tokens: Sequence[int]) -> int:
        """Append tokens one by one; the new end. Mutates."""
        for token in tokens:
            end = self.extend(end, token)
        return end
