"""Suffix decoding: a tree of what followed earlier occurrences of the current ending, in prompt or output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.speculation.automaton import ROOT_STATE, SuffixAutomaton
from service.speculation.copying import CopySource, draft_copies
from service.speculation.drafter import Drafter
from service.speculation.tree import DraftTree


@dataclass
class Suffix(Drafter):
    """Copies the likeliest continuations of all matched endings as a tree.

    Training-free and per request: nothing learnt from one request can reach another. Like `prompt_lookup` it pays
    where output repeats the input or itself; unlike it, it weighs all occurrences at every match length, so that
    doubtful places get siblings and sure ones a long chain. Source: SuffixDecoding, arxiv.org/abs/2411.04975, with
    the chances of prediction by partial matching in place of plain counts.

    Parameters: `min_chance` that a draft token is reached and accepted, 0 to 1 (default 0.05): lower it where rows
    of the verify pass are free, raise it where they are dear.
    """

    min_chance: float = 0.05
    _source: CopySource = field(default_factory=lambda: CopySource(SuffixAutomaton(), odds=0.4), init=False, repr=False)
    _end: int = field(default=ROOT_STATE, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_chance < 1:
            raise ValueError(f"suffix needs 0 <= min_chance < 1, got {self.min_chance}")

    def observe(self, tokens: Sequence[int]) -> None:
        """Index the tokens, in amortised constant time each."""
        self._end = self._source.texts.extend_all(self._end, tokens)

    def propose(self, budget: int) -> DraftTree:
        """The likeliest nodes, best first; where a match overlaps the ending, shorter matches go on."""
        cursor = self._source.texts.at_end(self._end)
        return draft_copies([self._source], [cursor], budget, self.min_chance, "suffix")
