"""Series of KV caches: what backends told, and nothing that they did not."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from prometheus_client import CollectorRegistry, generate_latest

from service.kvcache.answer_keys import SERIES_PREFIX
from service.sglang_plugin.kv_series import EvictionSeries, PoolSeries, ReadingSeries
from service.telemetry.adapters.sglang_kv import read_figures
from service.telemetry.exposition import render
from service.telemetry.kv import KvFigures, KvKind, KvSeries

OWN = {"model": "m", "pool": "p", "backend": "u"}
LOADS = b'{"loads": [{"num_used_tokens": 30, "max_total_num_tokens": 100}]}'


def told(figures: KvFigures | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    KvSeries(registry).tell("m", "p", "u", figures)
    return registry


def test_what_the_plugin_tells_is_read() -> None:
    registry = CollectorRegistry()
    evictions, reading = EvictionSeries(registry), ReadingSeries(registry)
    rows = torch.zeros(5, 3, 36, dtype=torch.uint8)
    pool = SimpleNamespace(start_layer=1, layer_num=2, get_key_buffer=lambda _: rows, get_value_buffer=lambda _: rows)
    PoolSeries(registry).serve(pool)
    evictions.lost(40)
    evictions.lost(2)
    evictions.missing(12)
    reading.steps(300, 900)
    text = generate_latest(registry)
    assert SERIES_PREFIX.encode() in text
    found = read_figures(LOADS, b"sglang:num_used_tokens 7.0\n" + text)
    assert found == KvFigures(70, 30, 12, 2 * 2 * 3 * 36, 2, 42, 300, 900)


def test_large_counts_and_labels_of_the_engine_are_read() -> None:
    found = read_figures(
        LOADS, b'specserve_kv_evicted_tokens_total{pid="3"} 1.25e+06\n# HELP specserve_kv_evictions x\n'
    )
    assert (found.evicted_total, found.evictions) == (1_250_000, None)


def test_ranks_are_summed_and_other_shapes_told() -> None:
    ranks = [{"num_used_tokens": used, "max_total_num_tokens": 5} for used in (1, 2)]
    assert read_figures(json.dumps({"loads": ranks}).encode(), None) == KvFigures(room=7, full=3)
    for other in (b"{}", b"[]", b"<html>", b'{"loads": [{"num_used_tokens": 1}]}'):
        with pytest.raises(ValueError, match="/v1/loads is not in the known shape"):
            read_figures(other, None)


def test_states_have_tokens_and_bytes() -> None:
    registry = told(KvFigures(room=70, full=30, evicted=12, token_bytes=8, evictions=2, evicted_total=42))

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"specserve_kv_{name}", OWN | more)

    assert value("room_tokens") == 70
    assert (value("tokens", state="full"), value("tokens", state="evicted")) == (30, 12)
    assert (value("bytes", state="full"), value("bytes", state="evicted")) == (240, 96)
    assert (value("evictions_total"), value("evicted_tokens_total")) == (2, 42)
    assert value("rows_read_total") is None


def test_absent_is_absent() -> None:
    registry = told(KvFigures(room=70, full=30))
    samples = [sample.name for family in registry.collect() for sample in family.samples]
    assert samples == ["specserve_kv_room_tokens", "specserve_kv_tokens"]
    assert not [sample for family in told(None).collect() for sample in family.samples]


def test_the_pool_is_described() -> None:
    registry = CollectorRegistry()
    KvSeries(registry).describe_pool("m", "p", KvKind("float32", "snapkv:256", "", "missed"))
    body, _ = render(registry, "application/openmetrics-text; version=1.0.0")
    labels = b'calibration="",dtype="float32",gate="missed",model="m",policy="snapkv:256",pool="p"'
    assert b"specserve_kv_cache_info{" + labels + b"} 1.0" in body
