"""PARD's first token is the model's own next one; an untrained model's other guesses may be wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ConfigError
from service.speculation.drafter import DraftRequest
from service.speculation.drafters.draft_model import DraftModel
from service.speculation.drafters.pard import Pard
from tests.speculation.greedy import continuation, decode
from tests.speculation.tiny_models import tiny_model

PROMPT = (5, 9, 2, 40, 33, 7, 1)
texts = st.lists(st.integers(0, 62), min_size=1, max_size=60)


def pard(**options: float) -> Pard:
    return Pard.for_request(DraftRequest(model=tiny_model()), model=tiny_model(), **({"depth": 6} | options))


@settings(max_examples=12, deadline=None)
@given(text=texts)
def test_the_first_token_is_the_draft_models(text: list[int]) -> None:
    one, other = pard(), DraftModel.for_request(DraftRequest(model=tiny_model()), model=tiny_model(), depth=1)
    one.observe(text)
    other.observe(text)
    mine, reference = one.propose(6), other.propose(1)
    assert len(mine) == 6 and mine.tokens[0] == reference.tokens[0]
    assert mine.confidences is not None and mine.confidences[0] == pytest.approx(reference.confidences[0], abs=1e-4)


@settings(max_examples=12, deadline=None)
@given(pieces=st.lists(texts, min_size=1, max_size=4))
def test_mask_tokens_leave_no_trace(pieces: list[list[int]]) -> None:
    old, fresh = pard(), pard()
    for piece in pieces:
        old.propose(6)
        old.observe(piece)
    fresh.observe([token for piece in pieces for token in piece])
    assert old.propose(6).tokens == fresh.propose(6).tokens


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(texts, min_size=1, max_size=4), budgets=st.lists(st.integers(1, 6), min_size=4, max_size=4))
def test_together_equals_alone(texts: list[list[int]], budgets: list[int]) -> None:
    together, alone = [pard() for _ in texts], [pard() for _ in texts]
    for one, other, text in zip(together, alone, texts, strict=True):
        one.observe(text)
        other.observe(text)
    trees = Pard.propose_all(together, budgets[: len(texts)])
    assert [tree.tokens for tree in trees] == [
        other.propose(budget).tokens for other, budget in zip(alone, budgets, strict=False)
    ]


def test_position_one_is_always_accepted_and_the_text_stays() -> None:
    run = decode(tiny_model(), pard(), PROMPT, length=30, budget=6)
    assert all(accepted >= 1 for accepted, _ in run.steps)
    assert tuple(run.output[:30]) == continuation(tiny_model(), PROMPT, 30)


def test_an_unlikely_chain_is_cut() -> None:
    one = pard(min_confidence=1.0)
    one.observe(PROMPT)
    assert len(one.propose(6)) == 1


def test_a_model_that_was_not_trained_for_it_is_refused(tmp_path: Path) -> None:
    shutil.copytree(tiny_model(), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["pard_token"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="pard_token"):
        Pard.check(DraftRequest(model=tiny_model()), model=str(tmp_path))
