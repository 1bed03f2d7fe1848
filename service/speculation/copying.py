"""Draft trees copied from texts: what followed the current ending before, best chances first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pow

from service.speculation.automaton import ROOT_STATE, Cursor, SuffixAutomaton
from service.speculation.best_first import Guess, grow, ranked
from service.speculation.tree import DraftTree, TreeBuilder

LENGTH_POWER = 0.93
AGREEMENT_POWER = 1.2
# Contexts with more continuations say next to nothing about the next one and take long to go through.
MOST_CONTINUATIONS = 32
# Shorter contexts are not asked once the longer ones left less doubt than this.
NEGLIGIBLE = 0.02


@dataclass(frozen=True, slots=True)
class CopySource:
    """Texts to copy from, and the odds that a match of one token, seen once, goes on as it did. Matches of fewer than
    `shortest` tokens are not asked."""

    texts: SuffixAutomaton
    odds: float
    shortest: int = 1

    def weight(self, state: int, matched: int) -> float:
        """The chance that the text goes on like one of the earlier passages of this context.

        odds * matched ** LENGTH_POWER * (occurrences / different continuations) ** AGREEMENT_POWER are the odds,
        fitted by maximum likelihood to greedy answers of a small model over fourteen kinds of requests.
        """
        agreement = self.texts.followed[state] / len(self.texts.following[state])
        odds = self.odds * pow(matched, LENGTH_POWER) * pow(agreement, AGREEMENT_POWER)
        return odds / (1.0 + odds)


def next_tokens(sources: Sequence[CopySource], cursors: Sequence[Cursor]) -> dict[int, float]:
    """Chances of the next token, from all matched contexts, the longest first.

    As in prediction by partial matching each context spreads its weight over what followed it (the newest
    continuation counts once more) and leaves the rest to the next shorter one. A source behind the first is asked
    only where it matches longer than those before it: their texts may be among its texts and must not count twice.
    """
    chances: dict[int, float] = {}
    rest = 1.0
    floors = [0]
    for _, matched in cursors:
        floors.append(max(floors[-1], matched))
    for source, (state, matched), floor in zip(reversed(sources), reversed(cursors), floors[-2::-1], strict=True):
        texts, least = source.texts, max(floor + 1, source.shortest)
        while state > ROOT_STATE and matched >= least:
            following, followed = texts.following[state], texts.followed[state]
            if len(following) > MOST_CONTINUATIONS:
                break
            if followed:
                spread = rest * source.weight(state, matched)
                share = spread / (followed + 1)
                for token, reached in following.items():
                    chances[token] = chances.get(token, 0.0) + share * texts.seen[reached]
                chances[texts.latest[state]] += share
                rest -= spread
                if rest < NEGLIGIBLE:
                    return chances
            state = texts.link[state]
            matched = texts.length[state]
    return chances


def draft_copies(
    sources: Sequence[CopySource], cursors: Sequence[Cursor], budget: int, min_chance: float, tag: str
) -> DraftTree:
    """The `budget` most probable nodes of the tree of copies behind these cursors, one cursor for each source.

    Nodes that are reached and accepted with less than `min_chance` are left out. Confidences are chances given the
    parent. Does not mutate the sources.
    """

    def guesses(at: list[Cursor]) -> Sequence[Guess]:
        return ranked(next_tokens(sources, at), tag)

    def step(at: list[Cursor], token: int) -> list[Cursor]:
        return [s.texts.continued(s.texts.step(c, token)) for s, c in zip(sources, at, strict=True)]

    builder = TreeBuilder(budget)
    root = [s.texts.continued(c) for s, c in zip(sources, cursors, strict=True)]
    grow(builder, root, guesses, step, floor=min_chance)
    return builder.build()
