"""The tree of draft tokens that one verify step checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

ROOT = -1


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Draft tokens of one request for one verify step; the root (the last committed token) is not among them.

    `parents[i]` is the index of node i's parent, smaller than i, or ROOT. Siblings carry different tokens.
    `confidences[i]`, where known, estimates the chance that node i is accepted once its parent was; `sources[i]`,
    where known, names what proposed it.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    confidences: tuple[float, ...] | None = None
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"{len(self.tokens)} draft tokens but {len(self.parents)} parents")
        for name, column in (("confidences", self.confidences), ("sources", self.sources)):
            if column is not None and len(column) != len(self.tokens):
                raise ValueError(f"{len(self.tokens)} draft tokens but {len(column)} {name}")
        edges = set(zip(self.parents, self.tokens, strict=True))
        if len(edges) != len(self.tokens):
            raise ValueError("two siblings of a draft tree carry the same token")
        if any(not ROOT <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError(f"a draft tree's parents must come first: {self.parents}")

    @classmethod
    def chain(cls, tokens: Sequence[int], confidence: float | None = None, source: str | None = None) -> DraftTree:
        """A tree without branches, all nodes with the same confidence and source."""
        return cls(
            tuple(tokens),
            tuple(range(ROOT, len(tokens) - 1)),
            None if confidence is None else (confidence,) * len(tokens),
            None if source is None else (source,) * len(tokens),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root; the first draft token has 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    def chances(self) -> tuple[float, ...] | None:
        """The chance that each node is reached and accepted: its confidence times its parent's chance."""
        if self.confidences is None:
            return None
        chances: list[float] = []
        for parent, confidence in zip(self.parents, self.confidences, strict=True):
            chances.append(confidence * (1.0 if parent == ROOT else chances[parent]))
        return tuple(chances)

    def kept(self, nodes: Iterable[int]) -> DraftTree:
        """The tree of these nodes alone. Raises ValueError when one's parent is not among them."""
        order = sorted(set(nodes))
        place = {node: i for i, node in enumerate(order)} | {ROOT: ROOT}
        missing = [node for node in order if self.parents[node] not in place]
        if missing:
            raise ValueError(f"nodes {missing} would lose their parents")
        return DraftTree(
            tuple(self.tokens[node] for node in order),
            tuple(place[self.parents[node]] for node in order),
            None if self.confidences is None else tuple(self.confidences[node] for node in order),
            None if self.sources is None else tuple(self.sources[node] for node in order),
        )


class TreeBuilder:
    """Grows a tree node by node; adding a child that its parent has already returns that child.

    `limit` is the largest number of nodes; `source` marks nodes that are added without one.
    """

    def __init__(self, limit: int, source: str = "") -> None:
        self.limit = limit
        self._source = source
        self._nodes: list[tuple[int, int, float, str]] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def full(self) -> bool:
        """Whether no node can be added any more."""
        return len(self._nodes) >= self.limit

    def child(self, parent: int, token: int) -> int | None:
        """The child of `parent` (a node or ROOT) that carries `token`."""
        return self._children.get((parent, token))

    def add(self, parent: int, token: int, confidence: float, source: str | None = None) -> int | None:
        """Index of the child that carries `token` behind `parent`; None when the tree is full."""
        known = self._children.get((parent, token))
        if known is not None:
            return known
        if self.full:
            return None
        node = self._children[parent, token] = len(self._nodes)
        self._nodes.append((token, parent, confidence, self._source if source is None else source))
        return node

    def add_chain(self, parent: int, tokens: Iterable[int], confidence: float, source: str | None = None) -> int:
        """Add one token behind the other; the last node, or `parent` when nothing was added."""
        for token in tokens:
            node = self.add(parent, token, confidence, source)
            if node is None:
                break
            parent = node
        return parent

    def build(self) -> DraftTree:
        """The tree so far."""
        if not self._nodes:
            return DraftTree()
        tokens, parents, confidences, sources = zip(*self._nodes, strict=True)
        return DraftTree(tokens, parents, confidences, sources)


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
