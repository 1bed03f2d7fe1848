"""Tree operators against naive references."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.sglang_plugin.operators.tree import (
    build_tree_kernel_efficient_cpu,
    fill_bonus_tokens_cpu,
    reconstruct_indices_from_tree_mask,
    rotate_input_ids_cpu,
    verify_tree_greedy_cpu,
    write_links,
)
from service.speculation.tree import DraftTree
from tests.speculation.trees import accepted_path, draft_trees


def links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node, by definition."""
    n = len(parents)
    children = [[c for c in range(1, n) if parents[c] == node] for node in range(n)]
    first = [family[0] if family else -1 for family in children]
    sibling = [-1] * n
    for family in children:
        for left, right in zip(family, family[1:], strict=False):
            sibling[left] = right
    return first, sibling


def visible(parents: list[int]) -> torch.Tensor:
    """mask[i, j]: j is i or an ancestor of i."""
    mask = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node in range(len(parents)):
        ancestor = node
        while ancestor >= 0:
            mask[node, ancestor] = True
            ancestor = parents[ancestor]
    return mask


def parents_with_root(tree: DraftTree) -> list[int]:
    return [-1, *(parent + 1 for parent in tree.parents)]


@given(tree=draft_trees())
def test_links_from_parents(tree: DraftTree) -> None:
    parents = parents_with_root(tree)
    child, sibling = torch.empty(len(parents), dtype=torch.int64), torch.empty(len(parents), dtype=torch.int32)
    write_links(parents, child, sibling)
    assert (child.tolist(), sibling.tolist()) == links(parents)


@given(first=draft_trees(), second=draft_trees(), lengths=st.tuples(st.integers(1, 99), st.integers(1, 99)))
def test_links_and_positions_from_masks(first: DraftTree, second: DraftTree, lengths: tuple[int, int]) -> None:
    n = 1 + max(len(first), len(second))
    # Shorter trees are padded with more children of the root, as SGLang's NGRAM pads them.
    trees = [parents_with_root(tree) + [0] * (n - 1 - len(tree)) for tree in (first, second)]
    mask = torch.stack([visible(parents) for parents in trees])
    positions, index = torch.empty(2 * n, dtype=torch.int64), torch.empty(2, n, dtype=torch.int64)
    child, sibling = torch.empty(2, n, dtype=torch.int64), torch.empty(2, n, dtype=torch.int64)
    reconstruct_indices_from_tree_mask(mask.flatten(), torch.tensor(lengths), positions, index, child, sibling, 2, n)
    assert index.tolist() == torch.arange(2 * n).view(2, n).tolist()
    for b, parents in enumerate(trees):
        assert (child[b].tolist(), sibling[b].tolist()) == links(parents)
        depth = visible(parents).sum(-1) - 1
        assert positions.view(2, n)[b].tolist() == (depth + lengths[b]).tolist()


@st.composite
def drafted(draw: st.DrawFn) -> tuple[int, list[int], list[int], list[int]]:
    """An EAGLE-style draft: topk, the parent table, the selected scores, and the parents that they mean."""
    topk, depth = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    # Score s belongs to row s // topk: row 0 hangs on the root, row r > 0 on the score parent_table[r].
    rows_of_step = [[0]] + [[1 + topk * (step - 1) + i for i in range(topk)] for step in range(1, depth)]
    table = [-1]
    for step in range(1, depth):
        candidates = [row * topk + i for row in rows_of_step[step - 1] for i in range(topk)]
        table += sorted(draw(st.permutations(candidates))[:topk])
    available, selected, parents = [*range(topk)], [], [-1]
    for _ in range(draw(st.integers(1, 6))):
        if not available:
            break
        score = draw(st.sampled_from(available))
        available.remove(score)
        selected.append(score)
        available += [r * topk + i for r, p in enumerate(table) if p == score for i in range(topk)]
    selected.sort()
    for score in selected:
        row = score // topk
        parents.append(0 if row == 0 else 1 + selected.index(table[row]))
    return topk, table, selected, parents


@given(draft=drafted(), length=st.integers(0, 20), mode=st.sampled_from([0, 1]))
def test_trees_of_draft_models(draft: tuple[int, list[int], list[int], list[int]], length: int, mode: int) -> None:
    topk, table, selected, parents = draft
    n, prefix = len(parents), 0 if mode == 1 else length
    # Neither the mask's old content nor the other request of the batch may matter.
    mask = torch.rand(2 * n * (prefix + n)) > 0.5
    positions, index = torch.empty(2 * n, dtype=torch.int64), torch.empty(2, n, dtype=torch.int64)
    child, sibling = torch.empty(2, n, dtype=torch.int64), torch.empty(2, n, dtype=torch.int64)
    build_tree_kernel_efficient_cpu(
        torch.tensor([table, table]),
        torch.tensor([selected, selected]),
        torch.tensor([length, length]),
        mask,
        positions,
        index,
        child,
        sibling,
        topk,
        4,
        n,
        mode,
    )
    for b in range(2):
        rows = mask.view(2, n, prefix + n)[b]
        assert rows[:, :prefix].all()
        assert torch.equal(rows[:, prefix:], visible(parents))
        assert positions.view(2, n)[b].tolist() == (visible(parents).sum(-1) - 1 + length).tolist()
        assert (child[b].tolist(), sibling[b].tolist()) == links(parents)
    assert index.tolist() == torch.arange(2 * n).view(2, n).tolist()


def test_other_mask_modes_are_refused() -> None:
    empty = torch.empty(0)
    with pytest.raises(ValueError, match="mask mode 2"):
        build_tree_kernel_efficient_cpu(empty, empty, empty, empty, empty, empty, empty, empty, 1, 1, 1, 2)


@settings(max_examples=200)
@given(tree=draft_trees(), data=st.data())
def test_greedy_verification_equals_the_accepted_path(tree: DraftTree, data: st.DataObject) -> None:
    parents = parents_with_root(tree)
    n = len(parents)
    target = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    child, sibling = torch.empty(n, dtype=torch.int64), torch.empty(n, dtype=torch.int64)
    write_links(parents, child, sibling)
    predicts, index = torch.full((2 * n,), -7, dtype=torch.int32), torch.full((2, n), -1, dtype=torch.int32)
    accepted = torch.empty(2, dtype=torch.int32)
    verify_tree_greedy_cpu(
        predicts,
        index,
        accepted,
        torch.tensor([[9, *tree.tokens]] * 2),
        torch.arange(2 * n).view(2, n),
        torch.stack([child, child]),
        torch.stack([sibling, sibling]),
        torch.tensor([target] * 2),
    )
    path = [0, *(1 + node for node in accepted_path(tree, target))]
    for b in range(2):
        assert int(accepted[b]) == len(path) - 1
        assert index[b].tolist() == [b * n + node for node in path] + [-1] * (n - len(path))
        assert [int(predicts[b * n + node]) for node in path] == [target[node] for node in path]


def test_verification_stops_at_the_width_of_the_output() -> None:
    chain = DraftTree.chain([1, 2, 3])
    child, sibling = torch.empty(1, 4, dtype=torch.int64), torch.empty(1, 4, dtype=torch.int64)
    write_links(parents_with_root(chain), child[0], sibling[0])
    predicts, index = torch.zeros(4, dtype=torch.int32), torch.full((1, 2), -1, dtype=torch.int32)
    accepted, rows = torch.empty(1, dtype=torch.int32), torch.arange(4).view(1, 4)
    tokens, target = torch.tensor([[9, 1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
    verify_tree_greedy_cpu(predicts, index, accepted, tokens, rows, child, sibling, target)
    assert accepted.tolist() == [1]
    assert index.tolist() == [[0, 1]]


def test_bonus_tokens() -> None:
    tokens, bonus = torch.tensor([1, 2, 3, 4, 5, 6]), torch.empty(2, dtype=torch.int32)
    fill_bonus_tokens_cpu(tokens, torch.tensor([1, 3], dtype=torch.int32), bonus, 3)
    assert bonus.tolist() == [1, 6]


def test_multi_layer_heads_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="EAGLE"):
        rotate_input_ids_cpu()
