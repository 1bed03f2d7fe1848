"""The only reader of SGLang's wire shape."""

from __future__ import annotations

from typing import Any

import pytest

from service.telemetry.adapters import sglang
from service.telemetry.speculation import SourceCounts, SpeculationRecord
from tests.doubles.fake_sglang import spec_details


def test_one_object_and_a_list() -> None:
    record = SpeculationRecord(steps=6, proposed=18, accepted=10, histogram=(0, 4, 0, 2))
    details = spec_details((0, 4, 0, 2))
    assert sglang.adapt({"spec_tokens_details": details}) == (record,)
    assert sglang.adapt({"spec_tokens_details": [details, details]}) == (record, record)


def test_what_our_plugin_adds() -> None:
    sources = {"copy": {"proposed": 12, "accepted": 9, "accepted_per_position": [6, 3]}}
    details = {**spec_details((0, 4, 0, 2)), "specserve": {"sources": sources, "draft_s": 0.01, "verify_s": None}}
    (record,) = sglang.adapt({"spec_tokens_details": details})
    assert record.sources == (SourceCounts("copy", 12, 9, (6, 3)),)
    assert (record.draft_s, record.verify_s) == (0.01, None)


@pytest.mark.parametrize("sglext", [None, [], {}, {"spec_tokens_details": None}, {"cached_tokens_details": {}}])
def test_what_it_cannot_adapt(sglext: object) -> None:
    assert not sglang.can_adapt(sglext)


@pytest.mark.parametrize(
    "broken",
    [
        "text",
        {},
        {**spec_details((1,)), "spec_verify_ct": -1},
        {**spec_details((1,)), "spec_verify_ct": 1.5},
        {**spec_details((1,)), "spec_correct_drafts_histogram": None},
        {**spec_details((1,)), "specserve": {"sources": None}},
        {**spec_details((1,)), "specserve": {"sources": {}, "draft_s": -1}},
        {**spec_details((1,)), "specserve": {"sources": {"a": {"proposed": 1}}}},
        {**spec_details((1,)), "spec_correct_drafts_histogram": [1, None]},
    ],
)
def test_an_unknown_shape_is_an_error(broken: Any) -> None:
    with pytest.raises(ValueError, match="spec_"):
        sglang.adapt({"spec_tokens_details": broken})
