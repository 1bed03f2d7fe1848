from __future__ import annotations

from typing import Any

import pytest

from service.profiles.facts import Facts
from service.profiles.machine import Role
from service.profiles.rules import Finding, check
from service.profiles.schema import Profile
from tests.profiles.profiles import gpu, profile, with_draft

PLAIN = {"algorithm": "none"}


def found(of: Profile, role: Role) -> dict[str, Finding]:
    return {finding.field: finding for finding in check(of, Facts(role=role)) if "prefill" in finding.message}


@pytest.mark.parametrize(
    ("of", "field", "words"),
    [
        (profile(speculation=PLAIN), "runtime.device", "set runtime.device cuda"),
        (gpu({}), "speculation.algorithm", "none, eagle, eagle3 or nextn"),
        (gpu(PLAIN, {"eviction": "snapkv"}), "kv.eviction", "set kv.eviction none"),
        (gpu(with_draft("eagle"), pp=2), "runtime.pp", "set pp 1"),
    ],
)
def test_what_prefill_engines_cannot_hand_over(of: Profile, field: str, words: str) -> None:
    for role in ("prefill", "decode"):
        assert found(of, role)[field].level == "error"
        assert words in found(of, role)[field].message
    assert found(of, "whole") == {}


@pytest.mark.parametrize("speculation", [PLAIN, with_draft("eagle3", draft_tokens=4)])
def test_what_they_can(speculation: dict[str, Any]) -> None:
    assert {finding.level for finding in found(gpu(speculation), "decode").values()} == {"warning"}


def test_algorithms_that_sglang_does_not_test_with_them_are_warned_of() -> None:
    assert found(gpu({"algorithm": "ngram"}), "decode")["speculation.algorithm"].level == "warning"
