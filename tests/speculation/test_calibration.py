"""Confidences are worth what was accepted."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.calibration import Calibration, rising
from service.speculation.tree import DraftTree


def taught(claim: float, truth: float, nodes: int = 2000) -> Calibration:
    generator, calibration = random.Random(1), Calibration()
    for _ in range(nodes):
        path = (0,) if generator.random() < truth else ()
        calibration.observe(DraftTree.chain([7], claim, "source"), path)
    return calibration


@pytest.mark.parametrize(("claim", "truth"), [(0.9, 0.2), (0.05, 0.8), (0.55, 0.55), (1.0, 0.0), (0.0, 1.0)])
def test_it_learns_what_a_claim_is_worth(claim: float, truth: float) -> None:
    chances = taught(claim, truth).chances(DraftTree.chain([7, 8], claim, "source"))
    assert chances is not None
    assert chances[0] == pytest.approx(truth, abs=0.08)
    assert chances[1] == pytest.approx(chances[0] ** 2)


def test_other_sources_keep_their_word() -> None:
    chances = taught(0.9, 0.1).chances(DraftTree.chain([7], 0.9, "other"))
    assert chances == pytest.approx([0.9])


def test_nodes_that_nobody_reached_say_nothing() -> None:
    calibration = Calibration()
    for _ in range(500):
        calibration.observe(DraftTree((1, 2), (-1, 0), (0.25, 0.85), ("a", "b")), ())
    chances = calibration.chances(DraftTree.chain([1], 0.85, "b"))
    assert chances == pytest.approx([0.85])


def test_a_tree_that_claims_nothing_has_no_chances() -> None:
    calibration = Calibration()
    calibration.observe(DraftTree.chain([1, 2]), (0, 1))
    assert calibration.chances(DraftTree.chain([1, 2])) is None
    assert calibration.table() == {}


def test_the_number_of_sources_is_bounded() -> None:
    calibration = Calibration()
    for i in range(500):
        calibration.observe(DraftTree.chain([1], 0.5, f"s{i}"), ())
    assert len(calibration.table()) <= 65


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=12))
@settings(deadline=None)
def test_rising_rises_and_keeps_the_mean(pairs: list[tuple[float, float]]) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    fitted = rising(values, weights)
    assert (np.diff(fitted) >= -1e-12).all()
    assert fitted @ weights == pytest.approx(values @ weights)
