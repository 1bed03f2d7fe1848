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
    """Add nodes to the tree, the likeliest first, until it is full or no chance above `floor` is left. Mutates it.

    `guesses` lists next tokens of a state in falling order of chance, each token once; `step` is the state one token
    on. Both are asked only about nodes of the tree. A node that the tree has already is kept and grown from.
    """
    heap: list[tuple[float, int, int]] = []
    # One open list of guesses for each node: its parent, state, chance, and how many of them were taken.
    nodes: list[tuple[int, State, float, Sequence[Guess]]] = []

    def push(index: int, rank: int) -> None:
        found = nodes[index][3]
        if rank < len(found):
            chance = nodes[index][2] * found[rank][0]
            if chance > floor:
                heappush(heap, (-chance, index, rank))

    nodes.append((ROOT, root, 1.0, guesses(root)))
    push(0, 0)
    while heap and not builder.full:
        negative, index, rank = heappop(heap)
        parent, state, _, found = nodes[index]
        confidence, token, source = found[rank]
        node = builder.add(parent, token, confidence, source)
        push(index, rank + 1)
        if node is None or builder.full:
            break
        following = step(state, token)
        nodes.append((node, following, -negative, guesses(following)))
        push(len(nodes) - 1, 0)


def ranked(chances: Mapping[int, float], source: str) -> list[Guess]:
    """The tokens of one source in falling order of chance."""
    return sorted(((chance, token, source) for token, chance in chances.items()), reverse=True)
