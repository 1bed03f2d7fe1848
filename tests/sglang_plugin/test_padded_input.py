"""Verify batches as GPU attention reads them: equal widths, whole masks, one device."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from service.sglang_plugin.padded_input import PaddedVerifyInput, padded_masks, whole_mask
from service.sglang_plugin.penalties import Penalties, _counts
from service.sglang_plugin.verify_input import RaggedVerifyInput, tree_mask
from service.sglang_plugin.worker import padded
from service.speculation.tree import ROOT, DraftTree
from tests.speculation.trees import draft_trees

WIDTH = 8


def inputs(trees: list[DraftTree], lengths: list[int]) -> tuple[RaggedVerifyInput, PaddedVerifyInput]:
    host = torch.tensor(lengths)
    ragged = RaggedVerifyInput(trees, list(range(100, 100 + len(trees))), host, WIDTH)
    return ragged, PaddedVerifyInput(ragged, lengths, "cpu")


def test_a_batch_by_hand() -> None:
    _, batch = inputs([DraftTree((5, 6, 7), (ROOT, ROOT, 0)), DraftTree()], [10, 20])
    assert batch.draft_token.tolist() == [100, 5, 6, 7, 100, 100, 100, 100, *[101] * 8]
    assert batch.positions.tolist() == [10, 11, 11, 12, 10, 10, 10, 10, *[20] * 8]
    assert batch.real.tolist() == [0, 1, 2, 3, 8]
    assert batch.num_tokens_per_req == WIDTH
    assert batch.custom_mask.numel() == WIDTH * (10 + WIDTH) + WIDTH * (20 + WIDTH)


@given(pairs=st.lists(st.tuples(draft_trees(max_nodes=WIDTH - 1), st.integers(0, 40)), min_size=1, max_size=5))
def test_rows_see_their_text_and_their_path(pairs: list[tuple[DraftTree, int]]) -> None:
    trees, lengths = [tree for tree, _ in pairs], [length for _, length in pairs]
    ragged, batch = inputs(trees, lengths)
    assert torch.equal(batch.draft_token[batch.real], ragged.draft_token)
    assert torch.equal(batch.positions[batch.real], ragged.positions)
    offset = 0
    for tree, length in pairs:
        rows = batch.custom_mask[offset : offset + WIDTH * (length + WIDTH)].view(WIDTH, length + WIDTH)
        offset += rows.numel()
        n = len(tree) + 1
        assert rows[:, :length].all()
        assert torch.equal(rows[:n, length : length + n], tree_mask(tree))
        assert not rows[:n, length + n :].any()
        assert rows[n:, length].all()


def test_the_mask_is_made_on_the_device() -> None:
    """Fake tensors know their device and refuse to mix them, on a machine without one."""
    trees = padded_masks(inputs([DraftTree((5, 6), (ROOT, 0)), DraftTree()], [10, 20])[0], 2, WIDTH)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert whole_mask(trees, [10, 20], "cuda").device.type == "cuda"


def test_penalties_reach_logits_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    penalties, tree = (
        Penalties(frequency=0.5, presence=0.25, repetition=1.2, least=5, early=(1,)),
        DraftTree((5,), (ROOT,)),
    )
    counted = _counts([3, 3, 4], tree)
    monkeypatch.setattr("service.sglang_plugin.penalties._counts", lambda *_: counted)
    with FakeTensorMode(allow_non_fake_inputs=True):
        logits = torch.zeros(2, 16, device="cuda")
        penalties.apply(logits, [3, 3, 4], tree)


def test_ragged_rows_are_for_cpus() -> None:
    assert [padded("auto", "cpu"), padded("auto", "cuda"), padded("padded", "cpu")] == [False, True, True]
    with pytest.raises(ValueError, match="set auto or padded"):
        padded("ragged", "cuda")
