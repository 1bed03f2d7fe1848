"""Adjacency: a tree of what the target last said would follow each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.best_first import Guess, grow_bounded, ranked
from service.speculation.drafter import Drafter, DraftRequest, VerifiedRows
from service.speculation.table_guesses import TableGuesses
from service.speculation.tree import DraftTree, TreeBuilder

State = tuple[int | None, int]
"""The last two tokens."""


@dataclass
class Adjacency(Drafter):
    """Grows a tree best-first from the target's own answers behind tokens and pairs of tokens.

    Needs no repetition in the text, so it pays where nothing can be copied, a little and always; it proposes nothing
    until it learnt something or has a prior. Source: token recycling (arXiv:2408.08696), whose fixed template gave
    way to a tree by chances, with pairs as in Goose. What it learns stays with the tenant.

    Parameters: `prior`, the file of the model's own statistics (`service.speculation.prior_build`; default the one in
    the model's folder, if there is one; "none" starts from nothing); `floor`, the least chance of a draft token to be
    accepted, 0 to 1 (default 0.005).
    """

    learns_from = 8

    guesses: TableGuesses = field(default_factory=lambda: TableGuesses(AdjacencyTable()))
    floor: float = 0.005
    _before: int | None = field(default=None, init=False, repr=False)
    _last: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.floor < 1:
            raise ValueError(f"adjacency needs 0 <= floor < 1, got {self.floor}")

    @classmethod
    def for_request(cls, request: DraftRequest, *, prior: str | None = None, **options: Any) -> Self:
        """A drafter over the tenant's table. Raises OSError or ValueError for a prior that cannot be used."""
        return cls(TableGuesses.for_request(request, prior), **options)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember the last two tokens; the table learns from the target's answers, not from the text."""
        for token in tokens[-2:]:
            self._before, self._last = self._last, token

    def propose(self, budget: int) -> DraftTree:
        """The likeliest nodes of the tree of all that the table knows behind the last token."""
        builder = TreeBuilder(budget)
        if self._last is not None:
            grow_bounded(
                builder, (self._before, self._last), self._after, lambda at, token: (at[1], token), floor=self.floor
            )
        return builder.build()

    def _after(self, at: State, least: float) -> list[Guess]:
        return ranked(self.guesses.after(*at, least), "adjacency")

    def learn(self, rows: VerifiedRows) -> None:
        """Overwrite what the table knows behind the verified tokens."""
        self.guesses.table.learn(rows, self._before)
