"""Which requests are drafted for, with which drafter, and how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.speculation.drafter import Drafter
from service.speculation.tree import DraftTree

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req


@dataclass
class _Entry:
    drafter: Drafter
    seen: int = 0


class DraftBook:
    """One drafter a running request. Requests that left the batch are forgotten, retracted ones start again.

    `budget` is the largest number of draft tokens a request and step.
    """

    def __init__(self, create: Callable[[], Drafter], budget: int) -> None:
        self._create = create
        self._budget = budget
        self._entries: dict[str, _Entry] = {}

    def clear(self) -> None:
        """Forget every drafter."""
        self._entries.clear()

    def propose(self, reqs: Sequence[Req]) -> list[DraftTree]:
        """A tree for each request of the decode batch, empty for those not drafted for. Mutates the drafters."""
        self._entries = {req.rid: self._entries[req.rid] for req in reqs if req.rid in self._entries}
        return [self._propose_one(req) for req in reqs]

    def _propose_one(self, req: Req) -> DraftTree:
        if not self.drafts_for(req) or has_penalties(req.sampling_params, len(req.output_ids)):
            return DraftTree()
        entry = self._entries.get(req.rid)
        if entry is None:
            entry = self._entries[req.rid] = _Entry(self._create())
            entry.drafter.observe(req.origin_input_ids_unpadded)
        entry.drafter.observe(req.output_ids[entry.seen :])
        entry.seen = len(req.output_ids)
        budget = min(self._budget, remaining_tokens(req) - 1)
        return entry.drafter.propose(budget) if budget > 0 else DraftTree()

    @staticmethod
    def drafts_for(req: Req) -> bool:
        """Whether the request lets us speculate: `custom_params.specserve.mode` is not `off`."""
        return mode_of(req.sampling_params.custom_params) != "off"


def mode_of(custom_params: dict[str, Any] | None) -> str:
    """The request's speculation mode; `auto` when it names none."""
    settings = (custom_params or {}).get("specserve")
    return str(settings.get("mode", "auto")) if isinstance(settings, dict) else "auto"


def has_penalties(params: Any, generated: int) -> bool:
    """Whether a draft token inside the step would change the later tokens' penalties, `generated` tokens in."""
    return bool(
        params.frequency_penalty
        or params.presence_penalty
        or params.repetition_penalty != 1.0
        or params.min_new_tokens > generated
    )


def remaining_tokens(req: Req) -> int:
    """Tokens that the request may still generate (>= 1 while it runs)."""
    return int(req.sampling_params.max_new_tokens) - len(req.output_ids)
