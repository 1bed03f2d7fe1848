"""Attention of one request against softmax written out."""

from __future__ import annotations

import pytest
import torch

from service.sglang_plugin.operators.attention import RequestPlan, attend, contiguous_or_index, rows_of


def naive(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    """[n, heads, dim] with every head and query on its own; head h reads KV head h // group."""
    group = query.shape[1] // key.shape[1]
    out = torch.empty_like(query)
    for i in range(query.shape[0]):
        for h in range(query.shape[1]):
            scores = key[:, h // group] @ query[i, h] * scale
            weights = scores.masked_fill(~mask[i], float("-inf")).softmax(0)
            out[i, h] = weights @ value[:, h // group]
    return out


def tree_mask(n: int, length: int) -> torch.Tensor:
    """Every query sees the prefix and itself; nodes hang alternately from the node before and from the root."""
    tree = torch.eye(n, dtype=torch.bool)
    for node in range(1, n):
        tree[node] |= tree[node - 1 if node % 2 else 0]
    return torch.cat((torch.ones(n, length - n, dtype=torch.bool), tree), 1)


@pytest.mark.parametrize("heads", [(9, 3), (4, 4), (8, 1)])
@pytest.mark.parametrize(
    ("n", "length", "kind"),
    [
        (1, 1, "all"),
        (1, 37, "all"),
        (8, 50, "tree"),
        (12, 12, "tree"),
        (64, 100, "tree"),
        (65, 100, "tree"),
        (3, 3, "causal"),
        (70, 70, "causal"),
        (20, 90, "chunk"),
        (80, 200, "chunk"),
    ],
)
def test_equals_softmax_written_out(n: int, length: int, kind: str, heads: tuple[int, int]) -> None:
    torch.manual_seed(n * length)
    query = torch.randn(n, heads[0], 16)
    cache = torch.randn(2, 3 * length, heads[1], 16)
    slots = torch.randperm(3 * length)[:length]
    key, value = rows_of(cache[0], slots), rows_of(cache[1], slots)
    seen = {
        "all": torch.ones(n, length, dtype=torch.bool),
        "tree": tree_mask(n, length) if kind == "tree" else torch.empty(0),
        "causal": torch.ones(n, length, dtype=torch.bool).tril(),
        "chunk": torch.ones(n, length, dtype=torch.bool).tril(length - n),
    }[kind]
    plan = RequestPlan(n, slots, None if kind in ("all", "causal") else seen, causal=kind == "causal")
    torch.testing.assert_close(attend(query, key, value, plan, 0.25), naive(query, key, value, seen, 0.25))


def test_contiguous_slots_are_a_view() -> None:
    cache = torch.randn(20, 3, 4)
    assert contiguous_or_index(torch.tensor([4, 5, 6], dtype=torch.int32)) == slice(4, 7)
    assert contiguous_or_index(torch.tensor([9])) == slice(9, 10)
    scattered = contiguous_or_index(torch.tensor([4, 6, 5, 7], dtype=torch.int32))
    assert isinstance(scattered, torch.Tensor) and scattered.dtype == torch.int64
    assert rows_of(cache, slice(4, 7)).data_ptr() == cache[4].data_ptr()
    assert torch.equal(rows_of(cache, scattered), cache[[4, 6, 5, 7]])
