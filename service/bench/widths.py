"""A drafter that is always wrong: the step costs of `specserve bench engine` are measured with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.speculation.drafter import Drafter
from service.speculation.tree import DraftTree

VERIFIED = (1, 2, 4, 8, 12)
"""Tokens of one verify pass, the last committed one included."""


@dataclass
class BenchWidths(Drafter):
    """Proposes chains of 0, 1, 3, 7 and 11 tokens in turn, so that a request meets all widths under equal conditions.

    Not for use: the drafts repeat the first token of the prompt, which no model goes on with. Widths above the
    budget are skipped.

    Parameters: `verified`, the tokens of the verify passes in turn (default 1, 2, 4, 8, 12).
    """

    verified: Sequence[int] = VERIFIED
    _first: int | None = field(default=None, init=False, repr=False)
    _step: int = field(default=0, init=False, repr=False)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember the first token of all."""
        if self._first is None and tokens:
            self._first = tokens[0]

    def propose(self, budget: int) -> DraftTree:
        """The next width's chain, always wrong."""
        width = self.verified[self._step % len(self.verified)] - 1
        self._step += 1
        if self._first is None or width > budget:
            return DraftTree()
        return DraftTree.chain([self._first] * width)
