"""What the gateway's own histograms say of the same time, and whether the clients agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from loadtests.record import Record
from loadtests.summary import QUANTILES, quantile

HISTOGRAMS = {
    "specserve_time_to_first_token_seconds": "first_event_s",
    "specserve_inter_token_latency_seconds": "tpot_s",
    "specserve_request_duration_seconds": "e2e_s",
    "specserve_spec_acceptance_length": "acceptance_length",
}
"""The gateway's series, and the figure of a record that measures the same from outside."""

Scrape = Mapping[str, Mapping[float, float]]
"""Histogram name to its buckets: upper bound to how many observations were up to it, over all labels."""


def read_scrape(text: str) -> Scrape:
    """The histograms of a Prometheus text page. Raises ValueError for another text."""
    scrape: dict[str, dict[float, float]] = {name: {} for name in HISTOGRAMS}
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.name in scrape else ():
            if sample.name.endswith("_bucket"):
                buckets = scrape[family.name]
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0) + sample.value
    return scrape


@dataclass(frozen=True, slots=True)
class Agreement:
    """One quantile as seen from both sides; the gateway knows it only to the bucket from `low` to `high`.

    Counts are of observations: they are equal when both sides saw the same requests.
    """

    metric: str
    quantile: float
    client: float | None
    low: float | None
    high: float | None
    client_count: int
    gateway_count: int

    @property
    def agrees(self) -> bool | None:
        """Whether the client's figure is at most a bucket's width outside the bucket; None with nothing to compare."""
        if self.client is None or self.low is None or self.high is None:
            return None
        width = self.high - self.low
        return self.low - width <= self.client <= self.high + width

    def line(self) -> dict[str, Any]:
        """For a table; the open last bucket has no upper bound."""
        high = None if self.high == float("inf") else self.high
        return {
            "metric": self.metric,
            "quantile": self.quantile,
            "client": self.client,
            "gateway_low": self.low,
            "gateway_high": high,
            "client_count": self.client_count,
            "gateway_count": self.gateway_count,
            "agrees": self.agrees,
        }


def compare(before: Scrape, after: Scrape, records: Sequence[Record]) -> list[Agreement]:
    """Each histogram's quantiles between two scrapes, against the records of the same time."""
    rows = []
    for name, figure in HISTOGRAMS.items():
        values = [value for record in records if (value := _figure(record, figure)) is not None]
        counts = {bound: count - before[name].get(bound, 0) for bound, count in sorted(after[name].items())}
        total = int(counts.get(float("inf"), 0))
        for share in QUANTILES:
            low, high = bucket(counts, share)
            rows.append(Agreement(name, share, quantile(values, share), low, high, len(values), total))
    return rows


def bucket(counts: Mapping[float, float], share: float) -> tuple[float | None, float | None]:
    """The bounds of the bucket that holds the quantile, from cumulative counts; (None, None) of nothing."""
    bounds = [0.0, *counts]
    total = counts.get(float("inf"), 0)
    if not total:
        return None, None
    place = share * (total - 1) + 1
    for low, high in pairwise(bounds):
        if counts[high] >= place:
            return low, high
    return bounds[-2], bounds[-1]


def _figure(record: Record, name: str) -> float | None:
    if name == "e2e_s" and record.status is None and record.outcome != "left":
        return None  # It never reached the service.
    if name == "acceptance_length" and record.outcome != "ok":
        return None
    value: float | None = getattr(record, name)
    return value
