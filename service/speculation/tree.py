"""The tree of draft tokens that one verify step checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    `targets[0]` is the target's token behind the root, `targets[1 + i]` the one behind node i.
    """
    ((path, _),) = follow([tree], lambda wanted: [targets[1 + node] for _, node in wanted])
    return path


def follow(
    trees: Sequence[DraftTree], next_tokens: Callable[[list[tuple[int, int]]], list[int]]
) -> list[tuple[list[int], list[int]]]:
    """Walk down every tree along the target's tokens: for each tree the accepted nodes and the emitted tokens.

    `next_tokens` is given pairs (tree, node), ROOT included, and returns the target's token behind each; it is asked
    for reached nodes only, level by level. With argmax tokens this is greedy verification; with tokens drawn from the
    target's distribution the emitted tokens have exactly that distribution: the drafts only decide which rows are
    ready. There is one more token than nodes: the bonus token.
    """
    children = [{edge: node for node, edge in enumerate(zip(t.parents, t.tokens, strict=True))} for t in trees]
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in trees]
    at = [(i, ROOT) for i in range(len(trees))]
    while at:
        reached = []
        for (i, node), token in zip(at, next_tokens(at), strict=True):
            path, emitted = found[i]
            emitted.append(token)
            child = children[i].get((node, token))
            if child is not None:
                path.append(child)
                reached.append((i, child))
        at = reached
    return found
