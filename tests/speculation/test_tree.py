"""Draft trees and the accepted path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.tree import ROOT, DraftTree, accepted_path
from tests.speculation.trees import draft_trees


def children(tree: DraftTree, parent: int) -> list[int]:
    return [node for node in range(len(tree)) if tree.parents[node] == parent]


def walk(tree: DraftTree, targets: list[int]) -> list[int]:
    """The accepted path, node by node from the root."""
    path, current = [], ROOT
    while following := [node for node in children(tree, current) if tree.tokens[node] == targets[current + 1]]:
        (current,) = following
        path.append(current)
    return path


@given(tree=draft_trees(), data=st.data())
def test_accepted_path_equals_a_walk(tree: DraftTree, data: st.DataObject) -> None:
    targets = data.draw(st.lists(st.integers(0, 3), min_size=len(tree) + 1, max_size=len(tree) + 1))
    assert accepted_path(tree, targets) == walk(tree, targets)


@given(tree=draft_trees())
def test_depths_count_the_ancestors(tree: DraftTree) -> None:
    for node, depth in enumerate(tree.depths()):
        ancestors = 0
        while node != ROOT:
            node, ancestors = tree.parents[node], ancestors + 1
        assert depth == ancestors


def test_a_chain_by_hand() -> None:
    chain = DraftTree.chain([4, 5, 6])
    assert chain.parents == (ROOT, 0, 1)
    assert chain.depths() == (1, 2, 3)
    assert accepted_path(chain, [4, 5, 9, 6]) == [0, 1]
    assert accepted_path(chain, [4, 5, 6, 0]) == [0, 1, 2]
    assert accepted_path(chain, [5, 5, 6, 0]) == []


def test_the_second_sibling_can_win() -> None:
    tree = DraftTree((1, 2, 3, 3), (ROOT, ROOT, 0, 1))
    assert accepted_path(tree, [2, 9, 3, 9, 9]) == [1, 3]


def test_a_matching_token_off_the_path_is_not_accepted() -> None:
    tree = DraftTree((1, 2), (ROOT, 0))
    assert accepted_path(tree, [9, 2, 2]) == []


def test_the_empty_tree_accepts_nothing() -> None:
    assert len(DraftTree()) == 0
    assert accepted_path(DraftTree(), [3]) == []


@pytest.mark.parametrize(
    ("tokens", "parents", "fault"),
    [
        ((1,), (), "parents"),
        ((1, 1), (ROOT, ROOT), "siblings"),
        ((1, 2), (1, ROOT), "come first"),
        ((1,), (0,), "come first"),
        ((1,), (-2,), "come first"),
    ],
)
def test_bad_trees_are_refused(tokens: tuple[int, ...], parents: tuple[int, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        DraftTree(tokens, parents)
