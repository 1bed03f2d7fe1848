"""Rows of the perplexity bench."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from service.bench.perplexity import Reading, cache_of, perplexity_rows
from service.errors import ConfigError
from service.profiles.schema import KvCache


def test_ratios_are_against_bfloat16() -> None:
    readings = [Reading("bfloat16", 10, -10 * math.log(8)), Reading("int4:hadamard", 10, -10 * math.log(10))]
    rows = perplexity_rows(readings, {"bfloat16": 72, "int4:hadamard": 18})
    assert rows[1]["perplexity"] == pytest.approx(10)
    assert rows[1]["perplexity_ratio"] == pytest.approx(1.25)
    assert rows[1]["bytes_ratio"] == 4


def test_without_a_reference_there_is_no_ratio() -> None:
    (row,) = perplexity_rows([Reading("int8", 3, -3.0)], {"int8": 9})
    assert row["perplexity_ratio"] is None and row["bytes_ratio"] is None


def test_names_of_caches() -> None:
    base = KvCache(max_tokens=77)
    assert cache_of("int4:hadamard", base) == KvCache(max_tokens=77, quantization="int4", rotation="hadamard")
    assert cache_of("int8", base) == KvCache(max_tokens=77, quantization="int8")
    assert cache_of("bfloat16", base) == KvCache(max_tokens=77, dtype="bfloat16")
    windowed = {"full_sinks": 16, "full_recent": 128, "dtype": "bfloat16", "prefix_cache": False}
    assert cache_of("int2:hadamard:16+128", base) == KvCache.model_validate(
        {"max_tokens": 77, "quantization": "int2", "rotation": "hadamard", **windowed}
    )
    assert cache_of("int4", KvCache.model_validate({"quantization": "int2", **windowed})).full_recent == 0
    for name in ("int3", "int2:hadamard:many"):
        with pytest.raises(ValidationError):
            cache_of(name, base)


def test_only_oscar_takes_the_calibration() -> None:
    base = KvCache(quantization="int2", rotation="oscar", calibration="kv.pt")
    assert cache_of("int2:oscar", base).calibration == "kv.pt"
    assert cache_of("int2:hadamard", base).calibration is None
    with pytest.raises(ConfigError, match="calibrate kv"):
        cache_of("int2:oscar", KvCache())
