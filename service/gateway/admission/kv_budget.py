"""How many tokens the requests of one pool may hold in its backends' KV caches, by what these told last."""

from __future__ import annotations

from dataclasses import dataclass

from service.telemetry.kv import KvFigures

# One request is reckoned with no more than this part of the share: who names an absurd maximum holds up few others.
_LARGEST = 0.25


@dataclass(slots=True)
class _Told:
    """`total` and `used` tokens of one backend, and what was reserved here when it told them."""

    total: int
    used: int
    reserved: int


class KvBudget:
    """`share` of all room, less what others than this gateway's requests hold there.

    A request holds its estimate from its admission on, though its cache grows only as it runs: what is admitted will
    fit later too. What backends hold beyond our reservations is others'. Backends that tell nothing count like the mean
    of those that do; while none has told anything, nothing is known and nothing bounded.
    """

    def __init__(self, share: float) -> None:
        self.reserved = 0
        self.limit: float | None = None
        self._share = share
        self._largest = 0
        self._told: dict[str, _Told] = {}
        self._silent: set[str] = set()

    def tell(self, backend: str, figures: KvFigures | None, *, up: bool) -> None:
        """What a backend said just now. A busy one that says nothing has what it had; one that is down has no room."""
        if not up:
            self._told.pop(backend, None)
            self._silent.discard(backend)
        elif figures is not None and figures.room is not None and figures.full is not None:
            self._told[backend] = _Told(figures.room + figures.full, figures.full, self.reserved)
            self._silent.discard(backend)
        elif backend not in self._told:
            self._silent.add(backend)
        self.limit = self._limit()

    def hold(self, cost: int, *, alone: bool) -> int | None:
        """Reserve a request's tokens and tell how many; None where they do not fit. Who is `alone` always fits."""
        if self.limit is None:
            return 0
        held = min(cost, self._largest)
        if not alone and self.reserved + held > self.limit:
            return None
        self.reserved += held
        return held

    def _limit(self) -> float | None:
        told = self._told.values()
        if not told:
            return None
        # Silent backends count like the mean of the others.
        scale = 1 + len(self._silent) / len(told)
        room = self._share * sum(one.total for one in told)
        self._largest = max(round(_LARGEST * scale * room), 1)
        # They told at different times; the most that was reserved then may be ours.
        others = max(sum(one.used for one in told) - max(one.reserved for one in told), 0)
        return scale * max(room - others, 0.0)
