"""The engine-neutral record: sums, means and per-position counts against hand counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.telemetry.response_object import response_object
from service.telemetry.speculation import SourceCounts, SpeculationRecord, merge

HAND = SpeculationRecord(steps=6, proposed=18, accepted=10, histogram=(0, 4, 0, 2))


def test_means_of_a_hand_count() -> None:
    assert HAND.mean_acceptance_length == 1 + 10 / 6
    assert HAND.acceptance_rate == 10 / 18
    # Four steps accepted one draft, two accepted three: position 0 six times, 1 and 2 twice.
    assert HAND.accepted_per_position() == (6, 2, 2)


def test_absent_means_are_none_and_not_zero() -> None:
    idle = SpeculationRecord(steps=0, proposed=0, accepted=0, histogram=())
    assert idle.mean_acceptance_length is None
    assert idle.acceptance_rate is None
    assert idle.accepted_per_position() == ()
    assert merge([]) is None
    assert response_object(None, choices=1) is None


def test_merge_pads_the_shorter_histogram() -> None:
    total = merge([HAND, SpeculationRecord(steps=2, proposed=2, accepted=1, histogram=(1, 1))])
    assert total == SpeculationRecord(steps=8, proposed=20, accepted=11, histogram=(1, 5, 0, 2))


histograms = st.lists(st.integers(0, 50), max_size=12)


@given(histograms)
def test_positions_sum_to_accepted(histogram: list[int]) -> None:
    accepted = sum(k * steps for k, steps in enumerate(histogram))
    record = SpeculationRecord(sum(histogram), 0, accepted, tuple(histogram))
    positions = record.accepted_per_position()
    assert sum(positions) == accepted
    assert list(positions) == sorted(positions, reverse=True)


@given(st.lists(histograms, min_size=1, max_size=4))
def test_merge_is_the_sum(parts: list[list[int]]) -> None:
    records = [SpeculationRecord(sum(h), 3, 1, tuple(h)) for h in parts]
    total = merge(records)
    assert total is not None
    assert total.steps == sum(total.histogram) == sum(sum(h) for h in parts)
    assert total.proposed == 3 * len(parts)


def test_response_object_of_one_choice_is_padded_to_the_width() -> None:
    report = response_object((HAND,), choices=1, drafts_per_step=5)
    assert report == {
        "acceptance_histogram": [0, 4, 0, 2, 0, 0],
        "num_spec_steps": 6,
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 18,
        "mean_acceptance_length": 1 + 10 / 6,
        "draft_acceptance_rate": 10 / 18,
        "by_source": None,
        "draft_seconds": None,
        "verify_seconds": None,
    }


def test_sources_and_seconds_are_summed_and_reported() -> None:
    copy, tree = SourceCounts("copy", 4, 3, (2, 1)), SourceCounts("tree", 2, 1, (0, 0, 1))
    first = SpeculationRecord(2, 6, 4, (0, 0, 2), (copy, tree), 0.25, 1.5)
    second = SpeculationRecord(1, 2, 1, (0, 1), (SourceCounts("copy", 2, 1, (1,)),), 0.5, 0.5)
    total = merge([first, second])
    assert total is not None
    assert total.sources == (SourceCounts("copy", 6, 4, (3, 1)), tree)
    assert (total.draft_s, total.verify_s) == (0.75, 2.0)
    report = response_object((total,), choices=1)
    assert report is not None
    assert report["by_source"]["copy"] == {
        "num_draft_tokens": 6,
        "num_accepted_draft_tokens": 4,
        "accepted_per_position": [3, 1],
    }
    assert (report["draft_seconds"], report["verify_seconds"]) == (0.75, 2.0)


def test_a_figure_that_one_record_lacks_is_absent_from_the_sum() -> None:
    known = SpeculationRecord(1, 1, 1, (0, 1), (SourceCounts("copy", 1, 1, (1,)),), 0.25, 1.5)
    total = merge([known, HAND])
    assert total is not None
    assert (total.sources, total.draft_s, total.verify_s) == (None, None, None)


def test_response_object_of_several_choices_is_their_sum_and_their_list() -> None:
    report = response_object((HAND, HAND), choices=2)
    assert report is not None
    assert report["num_spec_steps"] == 12
    assert [part["num_spec_steps"] for part in report["choices"]] == [6, 6]


def test_choices_are_unknown_when_the_engine_left_one_out() -> None:
    report = response_object((HAND,), choices=2)
    assert report is not None
    assert report["num_spec_steps"] == 6
    assert report["choices"] is None
