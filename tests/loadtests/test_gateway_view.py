"""Clients' percentiles beside the gateway's histograms."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from loadtests.gateway_view import HISTOGRAMS, Agreement, bucket, compare, read_scrape
from service.telemetry.metrics import SECONDS, Metrics, PoolMetrics
from tests.loadtests.records import record


def page(values: list[float]) -> str:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for pool in ("a", "b"):
        series = PoolMetrics(metrics, model="m", pool=pool, algorithm="x", draft="")
        for value in values[pool == "a" :: 2]:
            series.duration.observe(value)
    return generate_latest(registry).decode()


def test_every_compared_series_is_the_gateway_s() -> None:
    names = {family.name for family in Metrics(CollectorRegistry()).registry.collect()}
    assert names >= set(HISTOGRAMS)


@given(st.lists(st.floats(0.001, 500), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_client_that_saw_the_same_agrees(values: list[float], share: float) -> None:
    scrape = read_scrape(page(values))
    counts = scrape["specserve_request_duration_seconds"]
    low, high = bucket(counts, share)
    # A client interpolates between two ranks; the upper one is what the bucket holds.
    upper = sorted(values)[ceil(share * (len(values) - 1))]
    assert low is not None and high is not None
    assert low < upper <= high
    (row,) = (
        row
        for row in compare(read_scrape(page([])), scrape, [record(e2e_s=value) for value in values])
        if row.metric == "specserve_request_duration_seconds" and row.quantile == share
    )
    assert row.client_count == row.gateway_count == len(values)


def test_the_difference_of_two_scrapes_is_compared() -> None:
    before, after = read_scrape(page([100.0] * 50)), read_scrape(page([100.0] * 50 + [0.3] * 20))
    rows = {(row.metric, row.quantile): row for row in compare(before, after, [record(e2e_s=0.3) for _ in range(20)])}
    row = rows["specserve_request_duration_seconds", 0.5]
    assert (row.low, row.high, row.client_count, row.gateway_count, row.agrees) == (0.25, 0.5, 20, 20, True)
    assert rows["specserve_time_to_first_token_seconds", 0.5].agrees is None


def test_a_figure_more_than_a_bucket_away_disagrees() -> None:
    def row(client: float) -> Agreement:
        return Agreement("m", 0.5, client, 0.25, 0.5, 1, 1)

    assert [row(client).agrees for client in (0.01, 0.3, 0.7, 0.8)] == [True, True, True, False]


def test_the_open_bucket_has_no_upper_bound() -> None:
    low, high = bucket(read_scrape(page([5000.0]))["specserve_request_duration_seconds"], 0.5)
    assert (low, high) == (SECONDS[-1], float("inf"))
    assert Agreement("m", 0.5, 5000.0, low, high, 1, 1).line()["gateway_high"] is None
