"""Agent drafting: copies only from earlier blocks of the same kind, more of them where the request repeats itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from service.speculation.automaton import ROOT_STATE, Cursor, SuffixAutomaton
from service.speculation.blocks import Block, BlockTracker
from service.speculation.copying import CopySource, draft_copies
from service.speculation.drafter import Drafter, DraftRequest, Tokenizer
from service.speculation.tree import DraftTree

ODDS = 0.4
ELSEWHERE_ODDS = 0.2
BLOCK_START = -1
"""A token before each block, so that a block's beginning is a context like any other; nothing leads to it."""


@dataclass
class SelfRepetition:
    """How much more, or less, often the request repeats itself than its matches promised, over the last tokens.

    `memory` is the share of the past that a token keeps, `doubt` the weight of "as promised" in tokens.
    """

    memory: float = 1 - 1 / 32
    doubt: float = 4.0
    _promised: float = 0.0
    _kept: float = 0.0

    def observe(self, promised: float, kept: bool) -> None:
        """One token, whose context promised with this chance that it repeats earlier text. Mutates."""
        fresh = 1 - self.memory
        self._promised = self.memory * self._promised + fresh * promised
        self._kept = self.memory * self._kept + fresh * kept

    @property
    def factor(self) -> float:
        """What the odds of a match are to be multiplied with; 1 is the usual request."""
        prior = self.doubt * (1 - self.memory)
        return (self._kept + prior) / (self._promised + prior)


class PieceTexts:
    """The texts of single tokens, decoded once each, so never more than the vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def __getitem__(self, token: int) -> str:
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = self._tokenizer.decode([token])
        return text


@dataclass
class AgentBlocks(Drafter):
    """Suffix decoding that keeps reasoning, tool calls and prose (what tools answer included) apart.

    An agent's blocks of one kind resemble each other, and a few tokens that match in a block of another kind mislead:
    so a block copies from blocks of its own kind, from the block's first token on, and from others only what matches
    in `elsewhere` tokens and longer than there. The more the request has repeated itself lately, the higher the
    confidences and the more nodes pass `min_chance`; controllers that share a budget by confidence give such requests
    longer drafts. Source: AgentSpec, with one request's own blocks as the corpus; many requests' text is
    `ngram_corpus`.

    Without a tokenizer no mark can be seen: the whole text then counts as one block of prose, which is still
    lossless and is `suffix` with the factor for repetition. Plain chats gain nothing over `suffix`.

    Parameters: `min_chance` that a draft token is reached and accepted, 0 to 1 (default 0.05); `elsewhere`, the
    tokens that must match in a block of another kind, 0 for none ever, as AgentSpec has it (default 4: arguments of
    calls quote what was said before).
    """

    min_chance: float = 0.05
    elsewhere: int = 4
    _pieces: PieceTexts | None = field(default=None, init=False, repr=False)
    _tracker: BlockTracker = field(default_factory=BlockTracker, init=False, repr=False)
    _texts: dict[Block, SuffixAutomaton] = field(default_factory=dict, init=False, repr=False)
    _repetition: SelfRepetition = field(default_factory=SelfRepetition, init=False, repr=False)
    _source: CopySource = field(init=False, repr=False)
    _end: int = field(init=False, repr=False)
    _others: dict[Block, Cursor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_chance < 1:
            raise ValueError(f"agent_blocks needs 0 <= min_chance < 1, got {self.min_chance}")
        if self.elsewhere < 0:
            raise ValueError(f"agent_blocks needs elsewhere >= 0, got {self.elsewhere}")
        self._texts = {block: SuffixAutomaton() for block in Block}
        self._begin_block(Block.PROSE)

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request; its tokenizer finds the marks. Token texts are kept for the tenant."""
        drafter = cls(**options)
        tokenizer = request.tokenizer
        if tokenizer is not None:
            drafter._pieces = request.memory.get(request.tenant, "agent_blocks", lambda: PieceTexts(tokenizer))
        return drafter

    @property
    def block(self) -> Block:
        """The kind of block that the next token belongs to."""
        return self._tracker.block

    def _begin_block(self, block: Block) -> None:
        self._source = CopySource(self._texts[block], ODDS)
        self._end = self._source.texts.extend(ROOT_STATE, BLOCK_START)
        self._others.pop(block, None)

    def observe(self, tokens: Sequence[int]) -> None:
        """Index the tokens with their kind of block. A mark belongs to the block that it is written in."""
        for token in tokens:
            texts = self._source.texts
            state, matched = texts.continued(texts.at_end(self._end))
            if state > ROOT_STATE:
                promised = self._source.weight(state, matched)
                self._repetition.observe(promised, token in texts.following[state])
            self._end = texts.extend(self._end, token)
            for block, cursor in self._others.items():
                self._others[block] = self._texts[block].step(cursor, token)
            if self._pieces is not None:
                self._follow(self._pieces[token])

    def _follow(self, piece: str) -> None:
        before, changes = self._tracker.block, self._tracker.changes
        self._tracker.feed(piece)
        if self._tracker.changes != changes:
            if self.elsewhere:
                self._others[before] = self._source.texts.at_end(self._end)
            self._begin_block(self._tracker.block)

    def propose(self, budget: int) -> DraftTree:
        """The likeliest nodes, best first."""
        factor = self._repetition.factor
        sources, cursors = [CopySource(self._source.texts, ODDS * factor)], [self._source.texts.at_end(self._end)]
        for block, cursor in self._others.items():
            sources.append(CopySource(self._texts[block], ELSEWHERE_ODDS * factor, self.elsewhere))
            cursors.append(cursor)
        return draft_copies(sources, cursors, budget, self.min_chance, f"agent_{self.block}")
