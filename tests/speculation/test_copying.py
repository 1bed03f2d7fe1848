"""Chances and trees of copies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.automaton import ROOT_STATE, SuffixAutomaton
from service.speculation.copying import CopySource, draft_copies, next_tokens
from service.speculation.tree import ROOT, DraftTree

texts = st.lists(st.integers(0, 4), max_size=60)


def source(text: list[int], odds: float = 0.4) -> tuple[CopySource, tuple[int, int]]:
    automaton = SuffixAutomaton()
    end = automaton.extend_all(ROOT_STATE, text)
    return CopySource(automaton, odds), automaton.continued(automaton.at_end(end))


def chances(text: list[int]) -> dict[int, float]:
    copies, cursor = source(text)
    return next_tokens([copies], [cursor])


def drafted(text: list[int], budget: int, min_chance: float = 0.0) -> DraftTree:
    copies, cursor = source(text)
    return draft_copies([copies], [cursor], budget, min_chance, "copy")


@settings(deadline=None)
@given(text=texts)
def test_chances_are_chances(text: list[int]) -> None:
    found = chances(text)
    assert all(chance > 0 for chance in found.values())
    assert sum(found.values()) <= 1 + 1e-9


@settings(deadline=None)
@given(text=texts, budget=st.integers(1, 20))
def test_the_best_nodes_are_taken(text: list[int], budget: int) -> None:
    """A tree of a smaller budget is the likelier part of a larger one."""
    small, large = drafted(text, budget), drafted(text, budget + 5)
    assert large.tokens[: len(small)] == small.tokens and large.parents[: len(small)] == small.parents
    reached = large.chances() or ()
    assert list(reached) == pytest.approx(sorted(reached, reverse=True))


@settings(deadline=None)
@given(text=texts, min_chance=st.floats(0.01, 0.9))
def test_unlikely_nodes_are_left_out(text: list[int], min_chance: float) -> None:
    everything, cut = drafted(text, 30), drafted(text, 30, min_chance)
    assert all(chance >= min_chance - 1e-9 for chance in cut.chances() or ())
    assert set(cut.tokens) <= set(everything.tokens)


@settings(deadline=None)
@given(texts)
def test_confidences_of_siblings_add_up_to_one_at_most(text: list[int]) -> None:
    tree = drafted(text, 30)
    for parent in range(ROOT, len(tree)):
        siblings = [c for c, p in zip(tree.confidences or (), tree.parents, strict=True) if p == parent]
        assert sum(siblings) <= 1 + 1e-9


def test_longer_matches_are_surer() -> None:
    assert chances([1, 2, 3, 9, 1, 2, 3])[9] > chances([0, 2, 3, 9, 1, 2, 3])[9] > chances([0, 0, 3, 9, 1, 2, 3])[9]


def test_agreement_is_surer_than_one_occurrence_and_surer_than_dissent() -> None:
    once, twice, dissent = [5, 1, 5], [5, 1, 5, 1, 5], [5, 1, 5, 2, 5]
    assert chances(twice)[1] > chances(once)[1] > chances(dissent)[1]


def test_the_newest_continuation_is_likelier() -> None:
    found = chances([5, 1, 5, 2, 5])
    assert found[2] > found[1]


def test_doubt_branches_and_a_repetition_goes_on() -> None:
    tree = drafted([8, 5, 1, 8, 5, 2, 8, 5], budget=4)
    assert {token for token, parent in zip(tree.tokens, tree.parents, strict=True) if parent == ROOT} == {1, 2}
    chain = drafted([1, 2, 3] * 6, budget=8, min_chance=0.3)
    assert chain.tokens == (1, 2, 3, 1, 2, 3, 1, 2) and chain.parents == tuple(range(ROOT, 7))


def test_a_later_source_is_asked_for_longer_matches_only() -> None:
    own, own_cursor = source([3, 9, 3])
    other, _ = source([1, 2, 3, 4])
    longer = other.texts.step(other.texts.step((ROOT_STATE, 0), 2), 3)
    as_long = other.texts.step((ROOT_STATE, 0), 3)
    assert set(next_tokens([own, other], [own_cursor, longer])) == {4, 9}
    assert set(next_tokens([own, other], [own_cursor, as_long])) == {9}


def test_a_context_of_too_many_continuations_says_nothing() -> None:
    text = [token for other in range(1, 41) for token in (0, other)]
    assert chances([*text, 0]) == {}
