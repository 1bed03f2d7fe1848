"""From candidate texts to one draft tree of the likeliest nodes."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count

from service.speculation.toolcalls.expand import Candidate, Step
from service.speculation.toolcalls.tokens import Spelling
from service.speculation.tree import ROOT, DraftTree, TreeBuilder


@dataclass
class Node:
    """A token that some candidates share; its chance is the sum over the different ways to it."""

    token: int
    source: str
    steps: dict[int, float] = field(default_factory=dict)
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def chance(self) -> float:
        """The chance that the text goes this way, as far as the candidates know."""
        return min(1.0, sum(self.steps.values()))


def grow(root: Node, candidate: Candidate, spelling: Spelling) -> None:
    """Add one candidate in one of its spellings."""
    node, steps, begun = root, iter(candidate.steps), 0
    step: Step = next(steps)
    for i, (token, reached) in enumerate(spelling.tokens):
        while step.end <= begun:
            step = next(steps)
        source = step.source
        while step.end < reached:
            step = next(steps)
        node = node.children.setdefault(token, Node(token, source))
        node.steps[id(step)] = step.chance * (spelling.chance if i >= spelling.start else 1.0)
        begun = reached


def likeliest(root: Node, budget: int, floor: float) -> DraftTree:
    """The tree of the `budget` likeliest nodes that are at least `floor` likely, parents first."""
    builder = TreeBuilder(budget)
    order = count()
    heap = [(-node.chance, next(order), ROOT, 1.0, node) for node in root.children.values()]
    heapq.heapify(heap)
    while heap and not builder.full:
        negative, _, parent, above, node = heapq.heappop(heap)
        if -negative < floor:
            break
        index = builder.add(parent, node.token, -negative / above, node.source)
        if index is None:
            break
        for child in node.children.values():
            # A token over a joint belongs to the later step, so a child may seem likelier than its parent.
            heapq.heappush(heap, (max(negative, -child.chance), next(order), index, -negative, child))
    return builder.build()
