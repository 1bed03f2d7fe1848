"""The `metrics.speculative_decoding` object that clients and AIPerf read, in vLLM's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.telemetry.speculation import SourceCounts, SpeculationRecord, merge


def one_object(record: SpeculationRecord, *, drafts_per_step: int | None = None) -> dict[str, Any]:
    """The object of one record.

    `drafts_per_step`, where it is known, pads the histogram to `drafts_per_step + 1` entries, as vLLM does:
    no step accepted that many, so the zeros are counts and not guesses. The last three entries are ours.
    """
    missing = 0 if drafts_per_step is None else max(drafts_per_step + 1 - len(record.histogram), 0)
    return {
        "acceptance_histogram": [*record.histogram, *([0] * missing)],
        "num_spec_steps": record.steps,
        "num_accepted_draft_tokens": record.accepted,
        "num_draft_tokens": record.proposed,
        "mean_acceptance_length": record.mean_acceptance_length,
        "draft_acceptance_rate": record.acceptance_rate,
        "by_source": None if record.sources is None else {part.source: _source(part) for part in record.sources},
        "draft_seconds": record.draft_s,
        "verify_seconds": record.verify_s,
    }


def _source(counts: SourceCounts) -> dict[str, Any]:
    return {
        "num_draft_tokens": counts.proposed,
        "num_accepted_draft_tokens": counts.accepted,
        "accepted_per_position": list(counts.per_position),
    }


def response_object(
    records: Sequence[SpeculationRecord] | None, *, choices: int, drafts_per_step: int | None = None
) -> dict[str, Any] | None:
    """The object of a whole request; None when the engine told nothing.

    With several choices it is their sum plus `choices`, one object each in choice order. `choices` is null
    when the engine left some choices out: which ones is then unknown.
    """
    total = merge(records or ())
    if total is None or records is None:
        return None
    result = one_object(total, drafts_per_step=drafts_per_step)
    if choices > 1:
        complete = len(records) == choices
        result["choices"] = (
            [one_object(record, drafts_per_step=drafts_per_step) for record in records] if complete else None
        )
    return result
