"""Ragged verify batches."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from service.sglang_plugin.verify_input import RaggedVerifyInput, tree_mask
from service.speculation.tree import ROOT, DraftTree
from tests.sglang_plugin.test_tree_operators import parents_with_root, visible
from tests.speculation.trees import draft_trees


@given(tree=draft_trees())
def test_a_node_sees_itself_and_its_ancestors(tree: DraftTree) -> None:
    assert torch.equal(tree_mask(tree), visible(parents_with_root(tree)))


@given(tokens=st.lists(st.integers(0, 3), max_size=8))
def test_a_chain_is_causal(tokens: list[int]) -> None:
    n = len(tokens) + 1
    assert torch.equal(tree_mask(DraftTree.chain(tokens)), torch.ones(n, n, dtype=torch.bool).tril())


def test_a_batch_by_hand() -> None:
    trees = [DraftTree((5, 6, 7), (ROOT, ROOT, 0)), DraftTree(), DraftTree.chain([8])]
    verify = RaggedVerifyInput(trees, [1, 2, 3], torch.tensor([10, 20, 30]), width=8)
    assert verify.node_counts == [4, 1, 2]
    assert verify.starts == [0, 4, 5]
    assert verify.draft_token.tolist() == [1, 5, 6, 7, 2, 3, 8]
    assert verify.positions.tolist() == [10, 11, 11, 12, 20, 30, 31]
    assert verify.rows.tolist() == [0, 0, 0, 0, 1, 2, 2]
    assert verify.custom_mask.tolist() == torch.cat([tree_mask(tree).view(-1) for tree in trees]).tolist()
