"""Reads SGLang's `sglext.spec_tokens_details`.

The value is one object for one choice and a list in choice order for several. Under the algorithm SPECSERVE
the counts are what happened; under SGLang's own ones the proposed count is the configured width times steps.
"""

from __future__ import annotations

from typing import Any

from service.telemetry.speculation import SourceCounts, SpeculationRecord

KEY = "spec_tokens_details"


def can_adapt(sglext: object) -> bool:
    """Whether this extension object carries speculation details."""
    return isinstance(sglext, dict) and sglext.get(KEY) is not None


def adapt(sglext: dict[str, Any]) -> tuple[SpeculationRecord, ...]:
    """The records, in choice order. Raises ValueError when the details are not in the known shape."""
    details = sglext[KEY]
    items = details if isinstance(details, list) else [details]
    return tuple(_record(item) for item in items)


def _record(item: object) -> SpeculationRecord:
    if not isinstance(item, dict):
        raise ValueError(f"{KEY}: expected an object, got {type(item).__name__}")
    histogram = item.get("spec_correct_drafts_histogram")
    if not isinstance(histogram, list):
        raise ValueError(f"{KEY}: spec_correct_drafts_histogram is not a list")
    return SpeculationRecord(
        steps=_count(item, "spec_verify_ct"),
        proposed=_count(item, "spec_num_proposed_drafts"),
        accepted=_count(item, "spec_num_correct_drafts"),
        histogram=tuple(_whole(value, "spec_correct_drafts_histogram") for value in histogram),
        **_account(item.get("specserve")),
    )


def _account(own: object) -> dict[str, Any]:
    """What our plugin adds: draft tokens by source, and seconds; nothing for engines without it."""
    if own is None:
        return {}
    if not isinstance(own, dict) or not isinstance(own.get("sources"), dict):
        raise ValueError(f"{KEY}: specserve is not in the known shape")
    return {
        "sources": tuple(
            SourceCounts(
                str(name),
                _count(counts, "proposed"),
                _count(counts, "accepted"),
                tuple(_whole(value, "accepted_per_position") for value in counts.get("accepted_per_position", ())),
            )
            for name, counts in own["sources"].items()
        ),
        "draft_s": _seconds(own.get("draft_s")),
        "verify_s": _seconds(own.get("verify_s")),
    }


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{KEY}: {value!r} is no time")
    return float(value)


def _count(item: dict[str, Any], key: str) -> int:
    if key not in item:
        raise ValueError(f"{KEY}: {key} is missing")
    return _whole(item[key], key)


def _whole(value: object, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{KEY}: {key} holds {value!r}, not a count")
    return value
