"""Draft tokens that a grammar forbids."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from service.sglang_plugin.grammar import allowed_nodes  # noqa: E402
from service.sglang_plugin.verify_input import RaggedVerifyInput  # noqa: E402
from service.speculation.tree import ROOT, DraftTree  # noqa: E402


def bits(*rows: set[int]) -> object:
    """A bitmask over 64 tokens, as xgrammar writes it: the highest bit is the sign."""
    mask = torch.zeros(len(rows), 2, dtype=torch.int64)
    for row, tokens in enumerate(rows):
        for token in tokens:
            mask[row, token // 32] |= 1 << (token % 32)
    return torch.where(mask >= 2**31, mask - 2**32, mask).int()


def test_nodes_behind_their_parents_rows() -> None:
    #                     0  1   2   3
    tree = DraftTree((3, 40, 31, 5), (ROOT, 0, ROOT, 2))
    assert allowed_nodes(tree, bits({3, 31}, {40}, set(), {5}, set())) == [0, 1, 2, 3]
    assert allowed_nodes(tree, bits({3, 31}, {41}, set(), {5}, set())) == [0, 2, 3]
    # What stands behind a forbidden token goes with it, whatever its own row allows.
    assert allowed_nodes(tree, bits({31}, {40}, set(), {5}, set())) == [2, 3]
    assert allowed_nodes(tree, bits(set(), {40}, set(), {5}, set())) == []


def test_pruned_inputs_keep_roots_positions_and_rows() -> None:
    trees = [DraftTree((7, 8, 9), (ROOT, 0, ROOT)), DraftTree((5,), (ROOT,))]
    whole = RaggedVerifyInput(trees, [1, 2], torch.tensor([10, 20]), 6)
    pruned, rows = whole.pruned([[2], []])
    assert rows.tolist() == [0, 3, 4]
    assert pruned.draft_token.tolist() == [1, 9, 2]
    assert pruned.positions.tolist() == [10, 11, 20]
    assert pruned.node_counts == [2, 1] and pruned.draft_token_num == 6
    assert pruned.draft_token.tolist() == whole.draft_token[rows].tolist()
