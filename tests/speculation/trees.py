"""Random draft trees."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from service.speculation.tree import ROOT, DraftTree, follow


@st.composite
def draft_trees(draw: st.DrawFn, max_nodes: int = 10, vocabulary: int = 4) -> DraftTree:
    """Any tree over a small vocabulary; no siblings alike."""
    tokens: list[int] = []
    parents: list[int] = []
    for node in range(draw(st.integers(0, max_nodes))):
        parent = draw(st.integers(ROOT, node - 1))
        token = draw(st.integers(0, vocabulary - 1))
        parent = parent if parent < len(tokens) else ROOT
        if (parent, token) not in zip(parents, tokens, strict=True):
            parents.append(parent)
            tokens.append(token)
    return DraftTree(tuple(tokens), tuple(parents))


def accepted_path(tree: DraftTree, targets: Sequence[int]) -> list[int]:
    """Nodes on the longest path whose tokens the target model chose.

    `targets[0]` is the target's token behind the root, `targets[1 + i]` the one behind node i.
    """
    ((path, _),) = follow([tree], lambda wanted: [targets[1 + node] for _, node in wanted])
    return path
