"""The tree of draft tokens that one verify step checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = -1


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Draft tokens of one request for one verify step; the root (the last committed token) is not among them.

    `parents[i]` is the index of node i's parent, smaller than i, or ROOT. Siblings carry different tokens.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"{len(self.tokens)} draft tokens but {len(self.parents)} parents")
        edges = set(zip(self.parents, self.tokens, strict=True))
        if len(edges) != len(self.tokens):
            raise ValueError("two siblings of a draft tree carry the same token")
        if any(not ROOT <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError(f"a draft tree's parents must come first: {self.parents}")

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> DraftTree:
        """A tree without branches."""
        return cls(tuple(tokens), tuple(range(ROOT, len(tokens) - 1)))

    def __len__(self) -> int:
        return len(self.tokens)

    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root; the first draft token has 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)


def accepted_path(tree: DraftTree, targets: Sequence[int]) -> list[int]:
    """Nodes on the longest path whose tokens the target model chose.

    `targets[0]` is the target's token behind the root, `targets[1 + i]` the one behind node i. With targets that
    are the argmax this is greedy verification; with targets sampled independently per node from the target's
    distribution the emitted tokens have exactly that distribution (the draft only decides which rows are ready).
    """
    path: list[int] = []
    current = ROOT
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        if parent == current and token == targets[current + 1]:
            path.append(node)
            current = node
    return path
