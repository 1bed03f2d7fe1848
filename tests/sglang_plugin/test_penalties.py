"""Penalties inside a tree equal those of decoding the path token by token."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.sglang_plugin.penalties import Penalties
from service.speculation.tree import ROOT, DraftTree
from tests.speculation.trees import draft_trees

VOCABULARY = 8


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Tokens from below the root to the node."""
    tokens: list[int] = []
    while node != ROOT:
        tokens.insert(0, tree.tokens[node])
        node = tree.parents[node]
    return tokens


def step_by_step(penalties: Penalties, logits: torch.Tensor, text: list[int]) -> torch.Tensor:
    """One row penalised as SGLang's penalizers do it: float32 [vocab], after the tokens of `text`."""
    frequency, presence, scale = torch.zeros(VOCABULARY), torch.zeros(VOCABULARY), torch.ones(VOCABULARY)
    for token in text:
        frequency[token] += penalties.frequency
        presence[token], scale[token] = penalties.presence, penalties.repetition
    row = logits - frequency - presence
    row = torch.where(row < 0, row * scale, row / scale)
    if len(text) < penalties.least:
        row[list(penalties.early)] = -torch.inf
    return row


@given(
    tree=draft_trees(vocabulary=VOCABULARY),
    text=st.lists(st.integers(0, VOCABULARY - 1), max_size=12),
    frequency=st.sampled_from([0.0, 0.5, -1.0]),
    presence=st.sampled_from([0.0, 1.5, -0.25]),
    repetition=st.sampled_from([1.0, 1.3, 0.7]),
    least=st.integers(0, 14),
    seed=st.integers(0, 99),
)
def test_each_row_sees_its_own_path(
    tree: DraftTree, text: list[int], frequency: float, presence: float, repetition: float, least: int, seed: int
) -> None:
    penalties = Penalties(frequency, presence, repetition, least, (0, 7) if least else ())
    logits = torch.randn(1 + len(tree), VOCABULARY, generator=torch.Generator().manual_seed(seed))
    wanted = [
        step_by_step(penalties, logits[1 + node].clone(), [*text, *path_to(tree, node)])
        for node in range(ROOT, len(tree))
    ]
    penalties.apply(logits, text, tree)
    torch.testing.assert_close(logits, torch.stack(wanted), rtol=1e-6, atol=1e-6)


def request(output: list[int], **changes: Any) -> Any:
    plain = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_new_tokens": 0}
    params = SimpleNamespace(stop_token_ids={5}, **{**plain, **changes})
    tokenizer = SimpleNamespace(additional_stop_token_ids=None, eos_token_id=2)
    return SimpleNamespace(sampling_params=params, output_ids=output, eos_token_ids={2, 3}, tokenizer=tokenizer)


@pytest.mark.parametrize(
    "change", [{"frequency_penalty": 0.1}, {"presence_penalty": -1.0}, {"repetition_penalty": 2.0}]
)
def test_each_kind_is_read(change: dict[str, float]) -> None:
    found = Penalties.of(request([1], **change))
    assert found is not None
    assert change["".join(change)] in (found.frequency, found.presence, found.repetition)


def test_a_request_without_penalties_has_none() -> None:
    assert Penalties.of(request([1])) is None


def test_the_least_length_matters_until_it_is_reached() -> None:
    assert Penalties.of(request([1, 1], min_new_tokens=3)) == Penalties(least=3, early=(2, 3, 5))
    assert Penalties.of(request([1, 1, 1], min_new_tokens=3)) is None
