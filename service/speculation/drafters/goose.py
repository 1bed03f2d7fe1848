"""Goose: a deep spine copied from the text, with branches from what the target said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any, Self

from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.automaton import ROOT_STATE, Cursor, SuffixAutomaton
from service.speculation.best_first import Guess, grow_bounded
from service.speculation.copying import CopySource, next_tokens
from service.speculation.drafter import Drafter, DraftRequest, VerifiedRows
from service.speculation.table_guesses import TableGuesses
from service.speculation.tree import DraftTree, TreeBuilder

COPY_BIAS = 0.5
TABLE_WEIGHT = 3.2
# Short matches are poor evidence where the table knows the context: exp(COPY_BIAS - TABLE_WEIGHT * what it knows)
# multiplies the odds of a copy. Fitted by maximum likelihood to greedy answers of a small model.

State = tuple[Cursor, int | None, int]
"""Where the text so far occurred before, and its last two tokens."""


@dataclass
class Goose(Drafter):
    """Copies where the text repeats and falls back on the adjacency table elsewhere, node by node, by chance alone.

    Copies leave to the table what they are not sure of, so a long match becomes a deep spine with few branches and
    no match a bushy tree. Source: Goose (methods note 4.7); its fixed split of the budget between spine and branches
    lost to best-first growth over both sources. What the table learns stays with the tenant, copies with the request.

    Parameters: `prior`, the file of the model's own statistics (`service.speculation.prior_build`; default the one in
    the model's folder, if there is one; "none" starts from nothing); `floor`, the least chance of a draft token to be
    accepted, 0 to 1 (default 0.005); `copy_odds` that a match of one token, seen once, goes on as it did.
    """

    learns_from = 8

    guesses: TableGuesses = field(default_factory=lambda: TableGuesses(AdjacencyTable()))
    floor: float = 0.005
    copy_odds: float = 0.4
    _copies: CopySource = field(init=False, repr=False)
    _end: int = field(default=ROOT_STATE, init=False, repr=False)
    _before: int | None = field(default=None, init=False, repr=False)
    _last: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.floor < 1 or self.copy_odds <= 0:
            raise ValueError(f"goose needs 0 <= floor < 1 and copy_odds > 0, got {self.floor}, {self.copy_odds}")
        self._copies = CopySource(SuffixAutomaton(), self.copy_odds)

    @classmethod
    def for_request(cls, request: DraftRequest, *, prior: str | None = None, **options: Any) -> Self:
        """A drafter over the tenant's table. Raises OSError or ValueError for a prior that cannot be used."""
        return cls(TableGuesses.for_request(request, prior), **options)

    def observe(self, tokens: Sequence[int]) -> None:
        """Index the text, in amortised constant time for each token."""
        self._end = self._copies.texts.extend_all(self._end, tokens)
        for token in tokens[-2:]:
            self._before, self._last = self._last, token

    def propose(self, budget: int) -> DraftTree:
        """The likeliest nodes of the tree of copies and table entries behind the text."""
        builder = TreeBuilder(budget)
        if self._last is not None:
            root = self._copies.texts.at_end(self._end), self._before, self._last
            grow_bounded(builder, root, self._after, self._step, floor=self.floor)
        return builder.build()

    def _step(self, at: State, token: int) -> State:
        return self._copies.texts.step(at[0], token), at[2], token

    def _after(self, at: State, least: float) -> list[Guess]:
        cursor, before, last = at
        copied = next_tokens([self._copies], [self._copies.texts.continued(cursor)])
        known = self.guesses.after(before, last, least)
        copies = sum(copied.values())
        odds = copies * exp(COPY_BIAS - TABLE_WEIGHT * sum(known.values()))
        share = odds / (1.0 - copies + odds)
        found = {token: (share / copies * chance, token, "copy") for token, chance in copied.items()}
        for token, chance in known.items():
            chance *= 1.0 - share
            copy = found[token][0] if token in found else 0.0
            found[token] = (copy + chance, token, "copy" if copy > chance else "adjacency")
        return sorted(found.values(), reverse=True)

    def learn(self, rows: VerifiedRows) -> None:
        """Overwrite what the table knows behind the verified tokens."""
        self.guesses.table.learn(rows, self._before)
