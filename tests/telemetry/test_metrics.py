"""The series: their names, their labels and what a record adds."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from service.telemetry.exposition import render
from service.telemetry.metrics import MOST_SOURCES, Metrics, PoolMetrics
from service.telemetry.speculation import SourceCounts, SpeculationRecord
from service.telemetry.speedup import SpeedupEstimate

FIXED = {
    "requests_total",
    "request_duration_seconds",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "queue_seconds",
    "overhead_seconds",
    "prompt_tokens_total",
    "cached_prompt_tokens_total",
    "completion_tokens_total",
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
    "spec_acceptance_length",
    "spec_acceptance_rate",
    "spec_speedup_estimate",
}
OWN = {"model": "m", "pool": "p"}
DRAFT = {**OWN, "algorithm": "specserve", "draft": "prompt_lookup"}


def pool(registry: CollectorRegistry) -> PoolMetrics:
    return PoolMetrics(Metrics(registry), model="m", pool="p", algorithm="specserve", draft="prompt_lookup")


def test_every_fixed_name_is_there() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    text = render(registry, None)[0].decode()
    names = {line.split()[2].removeprefix("specserve_") for line in text.splitlines() if line.startswith("# TYPE")}
    assert names >= FIXED


def test_a_record_adds_its_counts() -> None:
    registry = CollectorRegistry()
    series = pool(registry)
    series.speculation(SpeculationRecord(steps=6, proposed=18, accepted=10, histogram=(0, 4, 0, 2)))
    series.speculation(SpeculationRecord(steps=0, proposed=0, accepted=0, histogram=()))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"specserve_{name}", {**DRAFT, **labels})

    assert value("spec_decode_num_drafts_total") == 6
    assert value("spec_decode_num_draft_tokens_total") == 18
    assert value("spec_decode_num_accepted_tokens_total") == 10
    positions = [value("spec_decode_num_accepted_tokens_per_pos_total", position=str(p)) for p in range(4)]
    assert positions == [6, 2, 2, None]
    # The request without a step has no mean, so it is not observed as 0.
    assert value("spec_acceptance_length_count") == 1
    assert value("spec_acceptance_rate_sum") == 10 / 18


def test_sources_and_seconds_have_series() -> None:
    registry = CollectorRegistry()
    series = pool(registry)
    sources = (SourceCounts("copy", 4, 3, (2, 1)), SourceCounts("tree", 2, 0))
    for _ in range(2):
        series.speculation(SpeculationRecord(2, 6, 3, (0, 1, 1), sources, 0.25, 1.5))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"specserve_{name}", {**DRAFT, **labels})

    assert value("spec_decode_source_draft_tokens_total", source="copy") == 8
    assert value("spec_decode_source_accepted_tokens_total", source="copy") == 6
    assert value("spec_decode_source_accepted_tokens_total", source="tree") == 0
    assert (value("spec_draft_seconds_total"), value("spec_verify_seconds_total")) == (0.5, 3.0)


def test_the_number_of_sources_is_bounded() -> None:
    registry = CollectorRegistry()
    series = pool(registry)
    for number in range(100):
        series.speculation(SpeculationRecord(1, 1, 0, (1,), (SourceCounts(f"s{number}", 1, 0),)))
    name = "specserve_spec_decode_source_draft_tokens_total"
    assert registry.get_sample_value(name, {**DRAFT, "source": "other"}) == 100 - MOST_SOURCES


def test_aborted_figures_stay_apart() -> None:
    registry = CollectorRegistry()
    pool(registry).aborted_speculation(SpeculationRecord(steps=1, proposed=3, accepted=2, histogram=(0, 0, 1)))
    assert registry.get_sample_value("specserve_spec_decode_aborted_num_draft_tokens_total", DRAFT) == 3
    assert registry.get_sample_value("specserve_spec_decode_num_draft_tokens_total", DRAFT) is None


def test_exposition_follows_the_accept_header() -> None:
    registry = CollectorRegistry()
    series = pool(registry)
    series.duration.observe(1, {"trace_id": "ab" * 16})
    body, kind = render(registry, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert b'trace_id="abab' in body
    body, kind = render(registry, "text/plain")
    assert kind.startswith("text/plain")
    assert b"trace_id" not in body


def test_speedup_needs_both_kinds_of_requests() -> None:
    estimate = SpeedupEstimate(minimum=2)
    assert estimate.add(0.1, drafted=True) is None
    assert estimate.add(0.1, drafted=True) is None
    assert estimate.add(0.2, drafted=False) is None
    value = estimate.add(0.2, drafted=False)
    assert value is not None
    assert abs(value - 2) < 1e-9


def test_speedup_gauge_is_absent_until_it_is_known() -> None:
    registry = CollectorRegistry()
    series = pool(registry)
    series.pace(0.1, drafted=True)
    assert registry.get_sample_value("specserve_spec_speedup_estimate", DRAFT) is None
