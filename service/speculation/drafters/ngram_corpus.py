"""Corpus drafting: copies from the tenant's earlier requests where they match longer than the request's own text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from service.speculation.automaton import ROOT_STATE, Cursor, SuffixAutomaton
from service.speculation.copying import CopySource, draft_copies
from service.speculation.drafter import Drafter, DraftRequest
from service.speculation.tree import DraftTree

OWN_ODDS = 0.4
# Fitted like the own text's: other answers of the same tenant are half as good a guide.
CORPUS_ODDS = 0.2


class Corpus:
    """What one tenant's requests said lately, prompts included, in at most `limit` automaton states.

    A token of new text takes one state, two at most; text that is known takes none. Two generations bound it: when
    the young one has half of the limit it becomes the old one, and the old one is forgotten. So text that nobody
    said again for between half of the limit and all of it goes first. Not thread-safe: one scheduler owns it.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self.young = CopySource(SuffixAutomaton(), CORPUS_ODDS)
        self.old = CopySource(SuffixAutomaton(), CORPUS_ODDS)

    def __len__(self) -> int:
        return len(self.young.texts) + len(self.old.texts)

    @property
    def full(self) -> bool:
        """Whether the young generation has no room for one more token."""
        return len(self.young.texts) + 2 > self._half

    def turn(self) -> None:
        """Begin a new generation and forget the old one. Mutates."""
        self.old, self.young = self.young, CopySource(SuffixAutomaton(), CORPUS_ODDS)


class CorpusReader:
    """One request's place in its tenant's corpus, to which it adds its own text as it grows."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._young, self._old = corpus.young, corpus.old
        self._end = ROOT_STATE
        self._old_cursor: Cursor = (ROOT_STATE, 0)

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens of the request to the corpus, in amortised constant time each. Mutates the corpus."""
        for token in tokens:
            if self._corpus.full:
                self._corpus.turn()
            if self._corpus.young is not self._young:
                self._follow_turn()
            self._end = self._young.texts.extend(self._end, token)
            self._old_cursor = self._old.texts.step(self._old_cursor, token)

    def _follow_turn(self) -> None:
        """Some request began a new generation, perhaps more than one: keep the match, if its texts are still there."""
        kept = self._corpus.old is self._young
        self._old_cursor = self._young.texts.at_end(self._end) if kept else (ROOT_STATE, 0)
        self._young, self._old = self._corpus.young, self._corpus.old
        self._end = ROOT_STATE

    def places(self) -> tuple[list[CopySource], list[Cursor]]:
        """The generations, young first, and where the request's ending matches in each."""
        return [self._young, self._old], [self._young.texts.at_end(self._end), self._old_cursor]


@dataclass
class NgramCorpus(Drafter):
    """Suffix decoding over the request's own text and the corpus of its tenant.

    The own text decides; a corpus is asked where more tokens match there than in the own text. A corpus is never
    shared between tenants, and a request of no tenant has none: then this equals `suffix`. It pays where one
    tenant's answers resemble each other: templates, tool calls, reports. It costs about twice the time of `suffix`
    for a token, and some 330 bytes for a state of the corpus: 11 MB for a tenant at the default limit. Source:
    SuffixDecoding's global tree, arxiv.org/abs/2411.04975, bounded and kept apart by tenant.

    Parameters: `min_chance` that a draft token is reached and accepted, 0 to 1 (default 0.05); `limit` of a tenant's
    corpus in automaton states, one to two for a token of new text (default 32768).
    """

    min_chance: float = 0.05
    limit: int = 32768
    _own: CopySource = field(default_factory=lambda: CopySource(SuffixAutomaton(), OWN_ODDS), init=False, repr=False)
    _end: int = field(default=ROOT_STATE, init=False, repr=False)
    _reader: CorpusReader | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_chance < 1:
            raise ValueError(f"ngram_corpus needs 0 <= min_chance < 1, got {self.min_chance}")
        if self.limit < 8:
            raise ValueError(f"ngram_corpus needs a limit of 8 states at least, got {self.limit}")

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request, at the end of its tenant's corpus, which it will add to."""
        drafter = cls(**options)
        if request.tenant is not None:
            corpus = request.memory.get(request.tenant, "ngram_corpus", lambda: Corpus(drafter.limit))
            drafter._reader = CorpusReader(corpus)
        return drafter

    def observe(self, tokens: Sequence[int]) -> None:
        """Index the tokens, in the tenant's corpus too. Mutates both."""
        self._end = self._own.texts.extend_all(self._end, tokens)
        if self._reader is not None:
            self._reader.add(tokens)

    def propose(self, budget: int) -> DraftTree:
        """The likeliest nodes, best first."""
        sources, cursors = [self._own], [self._own.texts.at_end(self._end)]
        if self._reader is not None:
            others, places = self._reader.places()
            sources += others
            cursors += places
        return draft_copies(sources, cursors, budget, self.min_chance, "ngram_corpus")
