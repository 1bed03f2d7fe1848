"""Prompt lookup against a naive search, and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.drafters.prompt_lookup import PromptLookup


def naive(text: list[int], longest: int, shortest: int, budget: int) -> list[int]:
    """Search the last earlier occurrence of the longest ending; copy on from there, over the end if need be."""
    for n in range(min(longest, len(text)), shortest - 1, -1):
        for start in range(len(text) - n - 1, -1, -1):
            if text[start : start + n] == text[-n:]:
                copied = list(text)
                for i in range(min(budget, 2 * n - 1)):
                    copied.append(copied[start + n + i])
                return copied[len(text) :]
    return []


@given(
    text=st.lists(st.integers(0, 3), max_size=40),
    longest=st.integers(1, 5),
    shortest=st.integers(1, 5),
    budget=st.integers(1, 12),
)
def test_equals_a_naive_search(text: list[int], longest: int, shortest: int, budget: int) -> None:
    longest = max(longest, shortest)
    drafter = PromptLookup(longest=longest, shortest=shortest)
    drafter.observe(text)
    assert list(drafter.propose(budget).tokens) == naive(text, longest, shortest, budget)


def test_the_latest_occurrence_wins() -> None:
    drafter = PromptLookup(longest=1, shortest=1)
    drafter.observe([7, 1, 7, 2, 7])
    assert drafter.propose(1).tokens == (2,)


def test_a_longer_match_wins_over_a_later_one() -> None:
    drafter = PromptLookup(longest=2, shortest=1)
    drafter.observe([5, 7, 1, 7, 2, 5, 7])
    assert drafter.propose(1).tokens == (1,)


@pytest.mark.parametrize(("longest", "shortest"), [(0, 0), (1, 2), (3, 0)])
def test_impossible_lengths_are_refused(longest: int, shortest: int) -> None:
    with pytest.raises(ValueError, match="1 <= shortest <= longest"):
        PromptLookup(longest=longest, shortest=shortest)
