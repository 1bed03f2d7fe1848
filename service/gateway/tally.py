"""What the engine told about one request: usage and speculation, gathered while its answer passes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.telemetry.adapters import sglang
from service.telemetry.response_object import response_object
from service.telemetry.speculation import SpeculationRecord


@dataclass(slots=True)
class Tally:
    """Figures of one request; None is what the engine did not tell.

    SGLang gives the details of the first prompt only when a request holds several prompts and n is 1. Such a
    part is not taken for the whole: with fewer records than `prompts` nothing is known.
    """

    choices: int
    batch: bool
    drafts_per_step: int | None
    usage: dict[str, Any] | None = None
    records: tuple[SpeculationRecord, ...] | None = None
    fault: str | None = None
    done: bool = False
    error: dict[str, Any] | None = None

    def take_usage(self, usage: object) -> None:
        """Keep the usage object; anything else is ignored."""
        if isinstance(usage, dict):
            self.usage = usage

    def take_sglext(self, sglext: object) -> None:
        """Read speculation details; a shape that is not known is noted in `fault`, never guessed at."""
        if not isinstance(sglext, dict) or not sglang.can_adapt(sglext):
            return
        try:
            records = sglang.adapt(sglext)
        except ValueError as error:
            self.fault = str(error)
            return
        if self.batch and len(records) < self.choices:
            self.fault = f"details of {len(records)} of {self.choices} choices"
            return
        self.records = records

    def metrics(self) -> dict[str, Any]:
        """The `metrics` value for a client that asked for it."""
        report = response_object(self.records, choices=self.choices, drafts_per_step=self.drafts_per_step)
        return {"speculative_decoding": report}

    def tokens(self, key: str) -> int | None:
        """A count of the usage object, None when it is not there."""
        return _count(self.usage, key)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens found in the prefix cache, where the engine reports them."""
        details = self.usage.get("prompt_tokens_details") if self.usage else None
        return _count(details, "cached_tokens")


def _count(holder: object, key: str) -> int | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
