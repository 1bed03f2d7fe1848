"""A model that drafts for itself is always right, a stranger never; rejections leave no trace."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ConfigError
from service.speculation.drafter import DraftRequest
from service.speculation.drafters.draft_model import DraftModel
from service.speculation.models.drafter import ModelDrafter
from service.speculation.tree import ROOT, DraftTree
from tests.speculation.greedy import continuation, decode
from tests.speculation.tiny_models import tiny_model

PROMPT = (5, 9, 2, 40, 33, 7, 1)
tokens = st.integers(0, 63)
pieces = st.lists(st.lists(tokens, min_size=1, max_size=6), min_size=1, max_size=5)


def drafter(draft: str | None = None, **options: float) -> DraftModel:
    options = {"depth": 5, "min_confidence": 0.0} | options
    return DraftModel.for_request(DraftRequest(model=tiny_model()), model=draft or tiny_model(), **options)


def same(one: DraftTree, other: DraftTree) -> bool:
    return (one.tokens, one.parents) == (other.tokens, other.parents) and one.confidences == pytest.approx(
        other.confidences, abs=1e-4
    )


def test_the_target_as_its_own_draft_is_always_right() -> None:
    run = decode(tiny_model(), drafter(), PROMPT, length=24, budget=5)
    assert run.accepted == run.proposed > 0
    assert tuple(run.output[:24]) == continuation(tiny_model(), PROMPT, 24)


def test_a_stranger_is_hardly_ever_right_and_changes_nothing() -> None:
    run = decode(tiny_model(), drafter(tiny_model(seed=1)), PROMPT, length=24, budget=5)
    assert run.accepted <= 0.1 * run.proposed
    assert tuple(run.output[:24]) == continuation(tiny_model(), PROMPT, 24)


@settings(max_examples=12, deadline=None)
@given(pieces=pieces, right=st.lists(st.integers(0, 4), min_size=5, max_size=5), branches=st.integers(1, 3))
def test_rejections_leave_no_trace(pieces: list[list[int]], right: list[int], branches: int) -> None:
    """The text goes on partly as drafted, partly otherwise; a fresh drafter proposes the same."""
    old, text = drafter(branches=branches), []
    for piece, count in zip(pieces, right, strict=False):
        drafted = spine(old.propose(5)) if text else []
        text += (new := drafted[:count] + piece)
        old.observe(new)
    fresh = drafter(branches=branches)
    fresh.observe(text)
    assert same(old.propose(5), fresh.propose(5))


def spine(tree: DraftTree) -> list[int]:
    """Tokens of the path through each level's first node."""
    path, parent = [], ROOT
    while parent in tree.parents:
        parent = tree.parents.index(parent)
        path.append(tree.tokens[parent])
    return path


@settings(max_examples=12, deadline=None)
@given(texts=st.lists(st.lists(tokens, min_size=1, max_size=50), min_size=1, max_size=5), data=st.data())
def test_together_equals_alone(texts: list[list[int]], data: st.DataObject) -> None:
    budgets = [data.draw(st.integers(1, 6)) for _ in texts]
    together = [drafter(branches=2, min_confidence=0.2) for _ in texts]
    alone = [drafter(branches=2, min_confidence=0.2) for _ in texts]
    for one, other, text in zip(together, alone, texts, strict=True):
        one.observe(text)
        other.observe(text)
    order = data.draw(st.permutations(range(len(texts))))
    batch = [(together[i], budgets[i]) for i in order]
    trees = DraftModel.propose_all([one for one, _ in batch], [budget for _, budget in batch])
    for i, tree in zip(order, trees, strict=True):
        assert same(tree, alone[i].propose(budgets[i]))


def test_requests_that_leave_make_room_without_harm() -> None:
    generator = random.Random(0)
    running: list[DraftModel] = []
    for _ in range(12):
        running.append(drafter())
        running[-1].observe([generator.randrange(64) for _ in range(generator.randrange(1, 300))])
        trees = DraftModel.propose_all(running, [3] * len(running))
        fresh = drafter()
        fresh.observe(running[0].text)
        assert same(trees[0], fresh.propose(3))
        del running[generator.randrange(len(running))]
        for one in running:
            one.observe([generator.randrange(64)])


def test_an_unsure_chain_stops_early_and_a_sure_one_goes_on() -> None:
    stopped, sure = drafter(min_confidence=1.0), drafter(min_confidence=0.0)
    for one in (stopped, sure):
        one.observe(PROMPT)
    assert len(stopped.propose(5)) == 1 and len(sure.propose(5)) == 5


def test_siblings_are_the_likeliest_nodes_and_help() -> None:
    one = drafter(branches=4, depth=3)
    one.observe(PROMPT)
    full, cut = one.propose(12), one.propose(4)
    assert full.sources == ("draft_model",) * len(full)
    chances = full.chances()
    assert chances is not None and cut.chances() == pytest.approx(sorted(chances, reverse=True)[:4], abs=1e-4)


def test_a_full_context_drafts_nothing() -> None:
    short = drafter(tiny_model(context=16))
    short.observe([3] * 14)
    assert len(short.propose(5)) == 2
    short.observe([3, 3])
    assert len(short.propose(5)) == 0


def test_another_vocabulary_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match="has 80 tokens and target .* 64"):
        DraftModel.check(DraftRequest(model=tiny_model()), model=tiny_model(vocabulary=80))
    with pytest.raises(ConfigError, match="folder is unknown"):
        DraftModel.check(DraftRequest(), model=tiny_model())
    with pytest.raises(ConfigError, match="no model folder"):
        DraftModel.check(DraftRequest(model=tiny_model()), model="/nowhere")
    with pytest.raises(ValueError, match="depth >= 1"):
        DraftModel.check(DraftRequest(model=tiny_model()), model=tiny_model(), depth=0)
    with pytest.raises(TypeError, match="heads"):
        DraftModel.check(DraftRequest(model=tiny_model()), model=tiny_model(), heads=1)


def test_all_requests_share_one_model() -> None:
    assert isinstance(drafter(), ModelDrafter) and drafter().runner is drafter().runner
