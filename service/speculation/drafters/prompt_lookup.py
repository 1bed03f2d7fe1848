"""Prompt lookup: draft what followed the last occurrence of the current ending, in prompt or output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.speculation.drafter import Drafter
from service.speculation.tree import DraftTree


@dataclass
class PromptLookup(Drafter):
    """Copies the continuation of the longest earlier n-gram that ends like the text does.

    Training-free and per request: nothing learnt from one request can reach another. It pays where output repeats
    the input or itself (retrieval-augmented answers, summaries, code edits) and proposes nothing elsewhere.
    Source: github.com/apoorvumang/prompt-lookup-decoding; an n-gram index makes a proposal O(longest). The draft's
    length grows with the match, because longer matches go on for longer: a match of n tokens drafts 2n - 1.

    Parameters: `longest` and `shortest` n-gram in tokens (default 8 and 1).
    """

    longest: int = 8
    shortest: int = 1
    _tokens: list[int] = field(default_factory=list, init=False, repr=False)
    _ends: list[dict[tuple[int, ...], int]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(f"prompt_lookup needs 1 <= shortest <= longest, got {self.shortest}, {self.longest}")
        self._ends = [{} for _ in range(self.longest + 1)]

    def observe(self, tokens: Sequence[int]) -> None:
        """Index every n-gram but the last of each length: the text's ending must not find itself."""
        for token in tokens:
            end = len(self._tokens)
            for n in range(self.shortest, min(self.longest, end) + 1):
                self._ends[n][tuple(self._tokens[end - n :])] = end
            self._tokens.append(token)

    def propose(self, budget: int) -> DraftTree:
        """A chain of at most `budget` tokens; where the match overlaps the ending, the period is continued."""
        for n in range(min(self.longest, len(self._tokens)), self.shortest - 1, -1):
            start = self._ends[n].get(tuple(self._tokens[-n:]))
            if start is not None:
                period = len(self._tokens) - start
                length = min(budget, 2 * n - 1)
                tokens = [self._tokens[start + i % period] for i in range(length)]
                return DraftTree.chain(tokens, confidence=n / (n + 1), source="prompt_lookup")
        return DraftTree()
