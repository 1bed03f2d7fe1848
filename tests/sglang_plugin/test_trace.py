"""The per-token trace: there and back, and cut where the text is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sglang_plugin.trace import StepTrace, decode_trace, encode_step, histogram
from service.speculation.tree import ROOT, DraftTree

names = st.sampled_from(["copy", "suffix", "scaffold"])


@st.composite
def steps(draw: st.DrawFn) -> StepTrace:
    proposed = draw(st.lists(names, max_size=12))
    accepted = proposed[: draw(st.integers(0, len(proposed)))]
    timed = draw(st.booleans())
    by = {name: proposed.count(name) for name in set(proposed)}
    return StepTrace(by, tuple(accepted), 0.001 if timed else None, 0.025 if timed else None)


histories = st.lists(steps(), min_size=1, max_size=20)


def encode(history: list[StepTrace]) -> list[Any]:
    """A completion: one token of the prefill, then the steps."""
    return [0, *(code for step in history for code in encode_step(step))]


@given(history=histories)
def test_there_and_back(history: list[StepTrace]) -> None:
    counts = decode_trace(encode(history))
    assert counts is not None
    assert counts.steps == tuple(history)


@given(history=histories)
def test_one_code_a_token(history: list[StepTrace]) -> None:
    assert len(encode(history)) == 1 + sum(step.accepted + 1 for step in history)


@given(history=histories)
def test_the_histograms_sum_to_the_counts(history: list[StepTrace]) -> None:
    counts = decode_trace(encode(history))
    assert counts is not None
    assert sum(counts.accepted_histogram()) == counts.verify_steps
    assert sum(n * k for n, k in enumerate(counts.accepted_histogram())) == counts.accepted
    assert sum(counts.proposed_histogram()) == len(history)
    assert sum(n * k for n, k in enumerate(counts.proposed_histogram())) == counts.proposed


@given(history=histories)
def test_the_sources_sum_to_the_counts(history: list[StepTrace]) -> None:
    counts = decode_trace(encode(history))
    assert counts is not None
    sources = counts.sources().values()
    assert sum(source["proposed"] for source in sources) == counts.proposed
    assert sum(source["accepted"] for source in sources) == counts.accepted
    assert all(sum(source["accepted_per_position"]) == source["accepted"] for source in sources)


@given(history=histories, cut=st.integers(0, 200))
def test_a_cut_text_counts_only_what_is_in_it(history: list[StepTrace], cut: int) -> None:
    codes = encode(history)[:cut]
    counts = decode_trace(codes)
    if cut < 2:
        assert counts is None
        return
    assert counts is not None
    drafts = [code for code in codes if isinstance(code, str) or (isinstance(code, list) and code[3] is not None)]
    assert counts.accepted == len(drafts)
    assert all(step.accepted <= step.proposed for step in counts.steps)


def test_by_hand() -> None:
    # prefill, a step of 3 drafts with 2 accepted, a plain step, a step of 2 drafts with none accepted
    first = StepTrace({"copy": 2, "tree": 1}, ("copy", "tree"), 0.0005, 0.04)
    codes = [0, *encode_step(first), *encode_step(StepTrace({}, ())), *encode_step(StepTrace({"copy": 2}, ()))]
    assert codes == [
        0,
        [{"copy": 2, "tree": 1}, 500, 40000, "copy"],
        "tree",
        0,
        [{}, None, None, None],
        [{"copy": 2}, None, None, None],
    ]
    counts = decode_trace(codes)
    assert counts is not None
    assert (counts.verify_steps, counts.proposed, counts.accepted) == (2, 5, 2)
    assert counts.accepted_histogram() == [1, 0, 1]
    assert counts.proposed_histogram() == [1, 0, 1, 1]
    assert counts.sources() == {
        "copy": {"proposed": 4, "accepted": 1, "accepted_per_position": [1]},
        "tree": {"proposed": 1, "accepted": 1, "accepted_per_position": [0, 1]},
    }
    assert (counts.draft_s(), counts.verify_s()) == (pytest.approx(0.0005), pytest.approx(0.04))


def test_nodes_without_a_source_count_for_their_drafter() -> None:
    tree = DraftTree((1, 2), (ROOT, 0))
    assert StepTrace.of(tree, [0], "suffix", 0.1, 0.2) == StepTrace({"suffix": 2}, ("suffix",), 0.1, 0.2, "suffix")
    marked = DraftTree((1, 2), (ROOT, 0), None, ("spine", "branch"))
    assert StepTrace.of(marked, [0, 1], "goose", 0.1, 0.2).accepted_from == ("spine", "branch")


def test_no_trace_is_nothing() -> None:
    assert decode_trace([]) is None
    assert decode_trace([None, None]) is None
    assert decode_trace([0, 0]) is None


def test_unknown_times_stay_unknown() -> None:
    counts = decode_trace(encode_step(StepTrace({"ngram": 3}, ())))
    assert counts is not None
    assert counts.draft_s() is None and counts.verify_s() is None


def test_an_empty_histogram() -> None:
    assert histogram([]) == []


def test_choices_are_told_to_those_who_ask() -> None:
    steps = [StepTrace({"copy": 2}, ("copy",), 0.1, 0.2, "goose"), StepTrace({}, (), 0.1, 0.2)]
    told = decode_trace([0, *(code for step in steps for code in encode_step(step, choices=True))])
    assert told is not None
    assert told.choices() == [("goose", 2), (None, 0)]
    untold = decode_trace([0, *(code for step in steps for code in encode_step(step))])
    assert untold is not None
    assert untold.choices() is None
