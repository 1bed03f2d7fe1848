"""Suffix decoding by hand."""

from __future__ import annotations

import pytest

from service.speculation.drafters.suffix import Suffix
from service.speculation.tree import ROOT


def test_a_long_match_drafts_a_chain_with_rising_confidence() -> None:
    drafter = Suffix()
    passage = list(range(10, 40))
    drafter.observe([*passage, 1, 2, *passage[:12]])
    tree = drafter.propose(8)
    assert tree.tokens == tuple(passage[12:20]) and tree.parents == tuple(range(ROOT, 7))
    assert tree.confidences is not None and list(tree.confidences) == sorted(tree.confidences)
    assert tree.sources == ("suffix",) * 8


def test_two_continuations_become_siblings() -> None:
    drafter = Suffix(min_chance=0.1)
    drafter.observe([4, 5, 6, 7, 0, 4, 5, 6, 8, 1, 4, 5, 6])
    tree = drafter.propose(4)
    assert {token for token, parent in zip(tree.tokens, tree.parents, strict=True) if parent == ROOT} == {7, 8}


def test_nothing_is_proposed_without_a_match() -> None:
    drafter = Suffix(min_chance=0)
    drafter.observe([1, 2, 3, 4])
    assert len(drafter.propose(8)) == 0


@pytest.mark.parametrize("min_chance", [-0.1, 1.0])
def test_impossible_chances_are_refused(min_chance: float) -> None:
    with pytest.raises(ValueError, match="min_chance"):
        Suffix(min_chance=min_chance)
