"""Grows a draft tree where a node is most likely to be accepted, one node at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from service.speculation.tree import ROOT, TreeBuilder

State = TypeVar("State")
Guess = tuple[float, int, str]
"""Chance of a next token, the token, and what proposes it."""


def grow(
    builder: TreeBuilder,
    root: State,
    guesses: Callable[[State], Sequence[Guess]],
    step: Callable[[State, int], State],
    *,
    floor: float = 0.0,
) -> None:
    """As `grow_bounded`, with guesses that take no bound. Mutates the builder."""
    grow_bounded(builder, root, lambda state, _least: guesses(state), step, floor=floor)


def grow_bounded(
    builder: TreeBuilder,
    root: State,
    guesses: Callable[[State, float], Sequence[Guess]],
    step: Callable[[State, int], State],
    *,
    floor: float = 0.0,
) -> None:
    """Add nodes to the tree, the likeliest first, until it is full or no chance above `floor` is left. Mutates it.

    `guesses` lists next tokens of a state in falling order of chance, each token once; it is told below which chance
    a guess is of no use, and may leave such out. `step` is the state one token
    on. Both are asked only about nodes of the tree. A node that the tree has already is kept and grown from.
    """
    found = guesses(root, floor)
    # A node's guesses are taken one by one, so the heap holds one entry for each node: the next guess and its rank.
    heap = [(-found[0][0], 0, ROOT, root, 1.0, found, 0)] if found and found[0][0] > floor else []
    order = 0
    while heap:
        negative, _, parent, state, reached, found, rank = heappop(heap)
        confidence, token, source = found[rank]
        node = builder.add(parent, token, confidence, source)
        if node is None or builder.full:
            break
        rank += 1
        if rank < len(found) and found[rank][0] * reached > floor:
            order += 1
            heappush(heap, (-found[rank][0] * reached, order, parent, state, reached, found, rank))
        state = step(state, token)
        found = guesses(state, floor / -negative)
        if found and found[0][0] * -negative > floor:
            order += 1
            heappush(heap, (negative * found[0][0], order, node, state, -negative, found, 0))


def ranked(chances: Mapping[int, float], source: str) -> list[Guess]:
    """The tokens of one source in falling order of chance."""
    return sorted(((chance, token, source) for token, chance in chances.items()), reverse=True)
