"""Tables from records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.record import Record, Slo
from loadtests.summary import fairness, quantile, recovery_s, summarize
from tests.loadtests.records import record

SLO = Slo(ttft_s=0.5, tpot_s=0.15)


def test_figures_of_one_answer() -> None:
    one = record(steps=4, accepted=6, proposed=12, prompt_tokens=20, cached_tokens=5, gaps_s=(0.1, 0.3))
    assert one.tpot_s == pytest.approx(0.1)
    assert one.acceptance_length == 2.5
    row = summarize([one], 2.0, SLO)["all"]
    assert row["itl_s"]["p50"] == pytest.approx(0.2)
    assert (row["tokens_per_s"], row["goodput_share"], row["prefix_hit_share"]) == (5, 1, 0.25)


def test_what_is_not_known_is_none() -> None:
    row = summarize([record(first_event_s=None, ttft_s=None, completion_tokens=None)], 1.0, SLO)["all"]
    assert row["ttft_s"] == {"p50": None, "p90": None, "p99": None}
    assert row["acceptance_length"] is row["prefix_hit_share"] is row["tokens_per_s"] is row["proposed"] is None
    assert summarize([], 1.0, SLO)["all"]["goodput_share"] is None


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({}, True),
        ({"ttft_s": 0.6}, False),
        ({"e2e_s": 3.0}, False),
        ({"outcome": "failed"}, False),
        ({"streamed": False, "ttft_s": None, "first_event_s": None, "e2e_s": 0.4}, True),
        ({"streamed": False, "ttft_s": None, "first_event_s": None, "e2e_s": 0.6}, False),
        ({"slow_reader": True, "e2e_s": 30.0}, True),
    ],
)
def test_goodput(fields: dict[str, object], good: bool) -> None:
    assert record(**fields).meets(SLO) is good


def test_clients_who_left_are_not_held_against_goodput() -> None:
    assert summarize([record(), record(outcome="left")], 1.0, SLO)["all"]["goodput_share"] == 1


def test_tables_by_tenant_and_their_fairness() -> None:
    records = [record(tenant="a"), record(tenant="b"), record(tenant="b")]
    summary = summarize(records, 1.0, SLO)
    assert list(summary["tenants"]) == ["a", "b"]
    assert summary["fairness"] == pytest.approx(900 / (2 * 500))
    assert fairness([7, 7]) == 1 and fairness([9, 0]) == 0.5 and fairness([9]) is None and fairness([0, 0]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_its_neighbours(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found is not None
    ordered = sorted(values)
    place = share * (len(values) - 1)
    assert ordered[int(place)] <= found <= ordered[min(int(place) + 1, len(values) - 1)]


def test_recovery_is_when_first_tokens_are_as_before() -> None:
    def at(due: float, ttft: float) -> Record:
        return record(at=due, ttft_s=ttft)

    before = [at(second, 0.1) for second in range(10)]
    slow = [at(second, 2.0) for second in range(10, 26)]
    after = [at(second, 0.12) for second in range(26, 40)]
    found = recovery_s([*before, *slow, *after], 10, 20, window_s=4, within=1.5)
    assert found == pytest.approx(6)
    assert recovery_s([*before, *slow], 10, 20, window_s=4, within=1.5) is None
    assert recovery_s(slow, 10, 20, window_s=4, within=1.5) is None


def test_a_record_survives_its_file() -> None:
    one = record(gaps_s=(0.5,), steps=1, accepted=1)
    assert Record.from_line(one.line()) == one
