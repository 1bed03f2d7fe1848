"""Layer skip: nothing skipped is the target itself; skip sets; the stored search."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ConfigError
from service.speculation.drafter import DraftRequest
from service.speculation.drafters.layer_skip import LayerSkip
from service.speculation.layer_search import matchness, own_texts, search, search_skip_set
from service.speculation.models.loading import load_model
from service.speculation.models.runner import Runner
from service.speculation.models.skipping import SkipSet, evenly_spaced, stored, without
from tests.speculation.greedy import continuation, decode
from tests.speculation.tiny_models import tiny_model

PROMPT = tuple(range(3, 60))


def target() -> str:
    return tiny_model(layers=6)


def drafter(**options: float | str) -> LayerSkip:
    return LayerSkip.for_request(DraftRequest(model=target()), **({"min_confidence": 0.0} | options))


def test_with_nothing_skipped_it_is_always_right() -> None:
    run = decode(target(), drafter(skip=0.0), PROMPT, length=24, budget=4)
    assert run.accepted == run.proposed > 0


@pytest.mark.parametrize("whole_prompt", [True, False])
def test_whatever_is_skipped_the_text_stays(whole_prompt: bool) -> None:
    run = decode(target(), drafter(skip=0.5, whole_prompt=whole_prompt), PROMPT, length=24, budget=4)
    assert run.accepted < run.proposed
    assert tuple(run.output[:24]) == continuation(target(), PROMPT, 24)


def test_the_whole_model_is_left_as_it_was() -> None:
    model, text = load_model(target()), torch.tensor([PROMPT])
    before = model(text).logits
    skipped = without(model, SkipSet((1, 2), (2, 3)))
    assert not torch.equal(skipped(text).logits, before)
    assert torch.equal(model(text).logits, before)
    assert skipped.base_model.layers[1].mlp is model.base_model.layers[1].mlp


def test_a_skipped_sublayer_adds_nothing() -> None:
    model, text = load_model(target()), torch.tensor([PROMPT])
    whole = without(model, SkipSet((2,), (2,)))
    layers = list(model.base_model.layers)
    shortened = without(model, SkipSet())
    shortened.base_model.layers = torch.nn.ModuleList(layers[:2] + layers[3:])
    assert torch.equal(whole(text, use_cache=False).logits, shortened(text, use_cache=False).logits)


@given(layers=st.integers(1, 80), fraction=st.floats(0, 1))
def test_even_sets_keep_the_ends_and_have_the_size(layers: int, fraction: float) -> None:
    skip = evenly_spaced(layers, fraction)
    assert len(set(skip.attention)) == len(skip.attention) == round(fraction * max(layers - 2, 0))
    assert all(0 < layer < layers - 1 for layer in skip.attention) and skip.mlp == skip.attention


def test_half_of_ten_is_every_second_interior_layer() -> None:
    assert evenly_spaced(10, 0.5).attention == (2, 4, 6, 8)


@pytest.mark.parametrize("skip", [SkipSet((6,), ()), SkipSet((), (-1,))])
def test_layers_that_do_not_exist_are_refused(skip: SkipSet) -> None:
    with pytest.raises(ConfigError, match="cannot skip layers"):
        without(load_model(target()), skip)


def test_the_search_never_ends_below_its_start_and_is_stored(tmp_path: Path) -> None:
    finding = search_skip_set(target(), str(tmp_path), seconds=0.5, skip=0.5, texts=2, length=16)
    assert finding.matchness >= finding.even_matchness and finding.trials >= 1
    assert len(finding.skip) == len(evenly_spaced(6, 0.5))
    assert stored(str(tmp_path), target()) == finding
    assert len(list(tmp_path.iterdir())) == 1
    one = drafter(skip_file=str(tmp_path))
    one.observe(PROMPT)
    assert len(one.propose(4)) == 4


def test_no_time_leaves_the_even_set() -> None:
    model = load_model(target())
    finding = search(model, own_texts(model, 1, 8, seed=0), seconds=0.0, skip=0.5)
    assert finding.skip == evenly_spaced(6, 0.5) and finding.trials == 1


def test_matchness_of_the_whole_model_is_one() -> None:
    model = load_model(target())
    assert matchness(model, SkipSet(), own_texts(model, 2, 16, seed=0)) == 1.0


def test_a_set_of_another_model_is_not_taken(tmp_path: Path) -> None:
    search_skip_set(tiny_model(layers=4), str(tmp_path), seconds=0.0, texts=1, length=8)
    with pytest.raises(ConfigError, match="search one first"):
        LayerSkip.check(DraftRequest(model=target()), skip_file=str(tmp_path))


@settings(max_examples=12, deadline=None)
@given(pieces=st.lists(st.lists(st.integers(0, 63), min_size=1, max_size=5), min_size=1, max_size=4))
def test_rejections_leave_no_trace(pieces: list[list[int]]) -> None:
    old, fresh = drafter(), drafter()
    for piece in pieces:
        old.observe(piece)
        proposal = old.propose(4)
    fresh.observe([token for piece in pieces for token in piece])
    assert fresh.propose(4).tokens == proposal.tokens


def test_rows_that_a_skipped_layer_never_wrote_are_not_read() -> None:
    """A long piece behind drafted text is read by the shortened model: the whole one would look at missing rows."""
    generator = random.Random(0)
    one = drafter(skip=0.5, depth=3)
    one.runner = Runner(*(without(load_model(target()), evenly_spaced(6, share)) for share in (0.5, 0.0)))
    one.lane = one.runner.lane()
    for _ in range(2):
        one.observe([generator.randrange(64) for _ in range(50)])
        one.propose(4)
        with torch.inference_mode():
            for layer in evenly_spaced(6, 0.5).attention:
                for rows in one.runner._pool._layers[layer]:
                    rows[one.lane.slot, :, 49:] = torch.nan
    one.observe([generator.randrange(64) for _ in range(50)])
    assert all(confidence > 0 for confidence in one.propose(4).confidences or [0.0])
