"""The per-token trace: there and back, and cut where the text is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.sglang_plugin.trace import decode_trace, encode_step, histogram

steps = st.integers(0, 12).flatmap(lambda proposed: st.tuples(st.just(proposed), st.integers(0, proposed)))
histories = st.lists(steps, min_size=1, max_size=20)


def encode(history: list[tuple[int, int]]) -> list[int]:
    """A completion: one token of the prefill, then the steps."""
    return [0, *(code for proposed, accepted in history for code in encode_step(proposed, accepted))]


@given(history=histories)
def test_there_and_back(history: list[tuple[int, int]]) -> None:
    counts = decode_trace(encode(history))
    assert counts is not None
    assert counts.steps == tuple(history)


@given(history=histories)
def test_one_code_a_token(history: list[tuple[int, int]]) -> None:
    assert len(encode(history)) == 1 + sum(accepted + 1 for _, accepted in history)


@given(history=histories)
def test_the_histograms_sum_to_the_counts(history: list[tuple[int, int]]) -> None:
    counts = decode_trace(encode(history))
    assert counts is not None
    assert sum(counts.accepted_histogram()) == counts.verify_steps
    assert sum(n * k for n, k in enumerate(counts.accepted_histogram())) == counts.accepted
    assert sum(counts.proposed_histogram()) == len(history)
    assert sum(n * k for n, k in enumerate(counts.proposed_histogram())) == counts.proposed


@given(history=histories, cut=st.integers(0, 200))
def test_a_cut_text_counts_only_what_is_in_it(history: list[tuple[int, int]], cut: int) -> None:
    codes = encode(history)[:cut]
    counts = decode_trace(codes)
    if cut < 2:
        assert counts is None
        return
    assert counts is not None
    tokens_of_drafts = sum(code & 1 for code in codes)
    assert counts.accepted == tokens_of_drafts
    assert all(accepted <= proposed for proposed, accepted in counts.steps)


def test_by_hand() -> None:
    # prefill, a step of 3 drafts with 2 accepted, a plain step, a step of 2 drafts with none accepted
    codes = [0, (4 << 1) | 1, 1, 0, 1 << 1, 3 << 1]
    assert codes == [0, *encode_step(3, 2), *encode_step(0, 0), *encode_step(2, 0)]
    counts = decode_trace(codes)
    assert counts is not None
    assert (counts.verify_steps, counts.proposed, counts.accepted) == (2, 5, 2)
    assert counts.accepted_histogram() == [1, 0, 1]
    assert counts.proposed_histogram() == [1, 0, 1, 1]


def test_no_trace_is_nothing() -> None:
    assert decode_trace([]) is None
    assert decode_trace([None, None]) is None
    assert decode_trace([0, 0]) is None


def test_an_empty_histogram() -> None:
    assert histogram([]) == []
