"""The gateway asks backends for their KV figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.gateway.kv_watch import kind_of
from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, pool_config, running_stack
from tests.doubles.wait import wait_until


def test_figures_follow_the_backend() -> None:
    fake = FakeSGLang(kv_tokens=(40, 100), series="specserve_kv_evictions_total 3.0\nspecserve_kv_token_bytes 8.0\n")
    with running_stack({"default": [fake]}, kv={"eviction": "snapkv", "budget": 64}, health_interval_s=0.05) as stack:
        own = {"model": MODEL, "pool": "default", "backend": next(stack.gateway.catalog.backends())[1].url}
        wait_until(lambda: stack.metric("specserve_kv_room_tokens", **own) == 60)
        assert stack.metric("specserve_kv_bytes", **own, state="full") == 320
        assert stack.metric("specserve_kv_evictions_total", **own) == 3
        fake.knobs.kv_tokens = (90, 100)
        wait_until(lambda: stack.metric("specserve_kv_room_tokens", **own) == 10)
        fake.knobs.kv_tokens = None
        wait_until(lambda: stack.metric("specserve_kv_room_tokens", **own) is None)
        kind = {"dtype": "float32", "policy": "snapkv:64", "calibration": "", "gate": "unproven"}
        assert stack.metric("specserve_kv_cache_info", model=MODEL, pool="default", **kind) == 1


def test_whole_caches_are_asked_for_their_room_alone() -> None:
    fake = FakeSGLang(kv_tokens=(40, 100), series="specserve_kv_evictions_total 3.0\n")
    with running_stack({"default": [fake]}, health_interval_s=0.05) as stack:
        own = {"model": MODEL, "pool": "default", "backend": next(stack.gateway.catalog.backends())[1].url}
        wait_until(lambda: stack.metric("specserve_kv_room_tokens", **own) == 60)
        assert stack.metric("specserve_kv_tokens", **own, state="full") == 40
        assert stack.metric("specserve_kv_evictions_total", **own) is None


@pytest.mark.parametrize(
    ("report", "gate"),
    [
        (None, "unproven"),
        ({"policy": "h2o:64", "model": MODEL, "passed": True, "missed": []}, "passed"),
        ({"policy": "h2o:64", "model": MODEL, "passed": False, "missed": ["agreement"]}, "missed"),
        ({"policy": "h2o:32", "model": MODEL, "passed": True, "missed": []}, "unproven"),
        ({"policy": "h2o:64", "model": "other", "passed": True, "missed": []}, "unproven"),
    ],
)
def test_the_gates_word_is_about_this_policy_and_model(tmp_path: Path, report: Any, gate: str) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(report))
    named = {} if report is None else {"quality_report": str(file)}
    kv = {"eviction": "h2o", "budget": 64, "dtype": "bfloat16", **named}
    kind = kind_of(pool_config("p", [], "none", kv=kv))
    assert (kind.policy, kind.gate, kind.dtype) == ("h2o:64", gate, "bfloat16")


def test_a_whole_cache_needs_no_proof() -> None:
    kind = kind_of(pool_config("p", [], "none"))
    assert (kind.policy, kind.gate, kind.dtype) == ("none", "whole", "float32")


def test_a_packed_cache_is_told_with_its_calibration() -> None:
    kv = {"quantization": "int4", "rotation": "oscar", "calibration": "/models/smollm2.oscar"}
    kind = kind_of(pool_config("p", [], "none", kv=kv))
    assert (kind.policy, kind.dtype, kind.calibration) == ("int4:oscar", "int4", "smollm2.oscar")
