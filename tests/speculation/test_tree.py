"""Draft trees and the accepted path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.tree import ROOT, DraftTree, TreeBuilder, follow
from tests.speculation.trees import accepted_path, draft_trees


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


def test_a_builder_grows_a_tree_and_finds_its_children_again() -> None:
    builder = TreeBuilder(limit=4, source="mine")
    first = builder.add(ROOT, 5, 0.9)
    assert first == 0 and builder.add(ROOT, 5, 0.1) == first
    assert builder.add_chain(first, [6, 7], 0.5, "other") == 2
    assert builder.add(ROOT, 8, 0.2) == 3
    assert builder.full and builder.add(ROOT, 9, 0.2) is None
    tree = builder.build()
    assert tree.tokens == (5, 6, 7, 8) and tree.parents == (ROOT, 0, 1, ROOT)
    assert tree.sources == ("mine", "other", "other", "mine")
    assert tree.chances() == pytest.approx((0.9, 0.45, 0.225, 0.2))


def test_an_empty_builder_builds_the_empty_tree() -> None:
    assert TreeBuilder(limit=3).build() == DraftTree()


def test_kept_nodes_form_a_tree() -> None:
    tree = DraftTree((5, 6, 7, 8), (ROOT, 0, 0, 2), (0.9, 0.8, 0.7, 0.6), ("a", "b", "c", "d"))
    assert tree.kept([0, 3, 2]) == DraftTree((5, 7, 8), (ROOT, 0, 1), (0.9, 0.7, 0.6), ("a", "c", "d"))
    with pytest.raises(ValueError, match="lose their parents"):
        tree.kept([0, 3])


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="confidences"):
        DraftTree((1, 2), (ROOT, 0), (0.5,))
    with pytest.raises(ValueError, match="sources"):
        DraftTree((1, 2), (ROOT, 0), None, ("a",))


def test_only_reached_nodes_are_asked_for() -> None:
    tree = DraftTree((5, 6, 7, 8), (ROOT, 0, ROOT, 2))
    asked: list[tuple[int, int]] = []

    def next_tokens(wanted: list[tuple[int, int]]) -> list[int]:
        asked.extend(wanted)
        return [7 if node == ROOT else 9 for _, node in wanted]

    assert follow([tree, DraftTree()], next_tokens) == [([2], [7, 9]), ([], [7])]
    assert asked == [(0, ROOT), (1, ROOT), (0, 2)]
