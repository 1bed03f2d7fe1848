"""The suffix automaton against naive counting."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.automaton import ROOT_STATE, Cursor, SuffixAutomaton

texts = st.lists(st.integers(0, 3), max_size=30)


def built(*parts: list[int]) -> tuple[SuffixAutomaton, list[int]]:
    automaton = SuffixAutomaton()
    return automaton, [automaton.extend_all(ROOT_STATE, part) for part in parts]


def occurrences(passage: list[int], *parts: list[int]) -> int:
    size = len(passage)
    return sum(part[i : i + size] == passage for part in parts for i in range(len(part) - size + 1))


def continuations(passage: list[int], *parts: list[int]) -> Counter[int]:
    size = len(passage)
    return Counter(part[i + size] for part in parts for i in range(len(part) - size) if part[i : i + size] == passage)


def walked(automaton: SuffixAutomaton, passage: list[int]) -> int | None:
    state: int | None = ROOT_STATE
    for token in passage:
        state = None if state is None else automaton.following[state].get(token)
    return state


@settings(deadline=None)
@given(first=texts, second=texts, data=st.data())
def test_counts_equal_naive_counts(first: list[int], second: list[int], data: st.DataObject) -> None:
    automaton, _ = built(first, second)
    passage = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    state = walked(automaton, passage)
    found = occurrences(passage, first, second)
    assert (state is not None) == (found > 0)
    if state is not None:
        following = {token: automaton.seen[reached] for token, reached in automaton.following[state].items()}
        assert automaton.seen[state] == found
        assert following == continuations(passage, first, second)
        assert automaton.followed[state] == sum(following.values())


@settings(deadline=None)
@given(first=texts, second=texts, data=st.data())
def test_texts_may_grow_interleaved(first: list[int], second: list[int], data: st.DataObject) -> None:
    automaton = SuffixAutomaton()
    ends, left = [ROOT_STATE, ROOT_STATE], [list(first), list(second)]
    while any(left):
        turn = data.draw(st.sampled_from([i for i in (0, 1) if left[i]]))
        ends[turn] = automaton.extend(ends[turn], left[turn].pop(0))
    assert [automaton.length[end] for end in ends] == [len(first), len(second)]
    passage = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    state = walked(automaton, passage)
    assert (automaton.seen[state] if state is not None else 0) == occurrences(passage, first, second)


@settings(deadline=None)
@given(text=texts, other=texts)
def test_a_cursor_matches_the_longest_known_ending(text: list[int], other: list[int]) -> None:
    automaton, _ = built(text)
    cursor: Cursor = (ROOT_STATE, 0)
    for end, token in enumerate(other, start=1):
        cursor = automaton.step(cursor, token)
        known = [size for size in range(1, end + 1) if occurrences(other[end - size : end], text)]
        assert cursor[1] == max(known, default=0)
        assert cursor[0] == walked(automaton, other[end - cursor[1] : end])


@settings(deadline=None)
@given(text=texts)
def test_links_lead_through_all_shorter_endings(text: list[int]) -> None:
    automaton, (end,) = built(text)
    lengths = []
    while end > ROOT_STATE:
        lengths.append(automaton.length[end])
        end = automaton.link[end]
    assert lengths == sorted(lengths, reverse=True)
    # Endings between two linked states occur as often as the longer one.
    for longer, shorter in pairwise([*lengths, 0]):
        for size in range(shorter + 1, longer):
            assert occurrences(text[-size:], text) == occurrences(text[-longer:], text)


def test_the_latest_continuation_is_known() -> None:
    automaton, _ = built([1, 2, 1, 3, 1])
    state = walked(automaton, [1])
    assert state is not None and automaton.latest[state] == 3


def test_known_text_takes_no_room() -> None:
    automaton, _ = built([1, 2, 3, 1, 2])
    size = len(automaton)
    automaton.extend_all(ROOT_STATE, [1, 2, 3, 1, 2])
    assert len(automaton) == size


def test_one_token_again_and_again_stays_quick() -> None:
    automaton, (end,) = built([7] * 20_000)
    assert automaton.length[end] == 20_000 and len(automaton) == 20_001
