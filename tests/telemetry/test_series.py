"""Our own counters and histograms, against prometheus_client's."""

from __future__ import annotations

import prometheus_client as theirs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from service.telemetry.series import Counter, Histogram

BOUNDS = (0.1, 0.5, 1, 2.5)


def _lines(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]


@given(st.lists(st.sampled_from([0, 0.05, 0.1, 0.3, 1, 2.5, 2.6, 99.5])), st.lists(st.integers(0, 5)))
def test_they_render_as_the_librarys_own(values: list[float], amounts: list[int]) -> None:
    own, other = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("s_time", "Time", ("model", "pool"), own, bounds=BOUNDS).labels(pool="p", model="m")
    counter = Counter("s_asked", "Asked", ("model",), own).labels(model="m")
    histogram2 = theirs.Histogram("s_time", "Time", ("model", "pool"), registry=other, buckets=BOUNDS)
    counter2 = theirs.Counter("s_asked", "Asked", ("model",), registry=other).labels(model="m")
    for value in values:
        histogram.observe(value)
        histogram2.labels(model="m", pool="p").observe(value)
    histogram2.labels(model="m", pool="p")
    for amount in amounts:
        counter.inc(amount)
        counter2.inc(amount)
    assert _lines(own) == _lines(other)


def test_exemplars_stay_with_their_bucket() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("s_time", "Time", ("model",), registry, bounds=BOUNDS).labels(model="m")
    histogram.observe(0.3, {"trace_id": "first"})
    histogram.observe(0.4, {"trace_id": "second"})
    histogram.observe(7)
    Counter("s_asked", "Asked", ("model",), registry).labels(model="m").inc(1, {"trace_id": "third"})
    text = b"\n".join(_lines(registry))
    assert b'le="0.5",model="m"} 2.0 # {trace_id="second"} 0.4' in text
    assert b's_asked_total{model="m"} 1.0 # {trace_id="third"} 1.0' in text
    assert b"first" not in text


def test_one_child_per_label_values() -> None:
    registry = CollectorRegistry()
    counter = Counter("s_asked", "Asked", ("model", "pool"), registry)
    assert counter.labels(model="m", pool="p") is counter.labels(pool="p", model="m")
    with pytest.raises(KeyError):
        counter.labels(model="m")


def test_a_name_can_be_taken_once() -> None:
    registry = CollectorRegistry()
    Counter("s_asked", "Asked", (), registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("s_asked", "Asked", (), registry, bounds=BOUNDS)
