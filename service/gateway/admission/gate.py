"""The door of one pool: how many requests run at once, who waits, who comes next, and who is sent away."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from service.errors import RefusedError
from service.gateway.admission.fair_queue import FairQueue
from service.gateway.admission.kv_budget import KvBudget
from service.gateway.admission.place import Place
from service.gateway.admission.tenant import PRIORITIES
from service.settings import AdmissionSettings
from service.telemetry.kv import KvFigures
from service.telemetry.metrics import PoolMetrics, Refusal

_SMOOTHING = 0.1
_LONGEST_RETRY_S = 60.0


class Gate:
    """Lets requests of one pool in, in the event loop of the API.

    Waiting requests of a higher class go first; within a class tenants share by weight. Every place that was asked for
    must be given to `leave` once or more; only the first time counts. The oldest request of the fairest turn goes in
    next even where a smaller one would fit sooner, so that none starves. When nothing runs, whatever comes goes in.
    """

    def __init__(self, settings: AdmissionSettings, series: PoolMetrics, *, max_running: int | None) -> None:
        self.series = series
        self.running = 0
        self.queued = 0
        self._settings = settings
        self._most = max_running
        self._kv = None if settings.kv_share is None else KvBudget(settings.kv_share)
        self._queues: dict[str, FairQueue[Place]] = {name: FairQueue() for name in PRIORITIES}
        self._left_at: float | None = None
        self._pace_s = 0.0

    @property
    def bounded(self) -> bool:
        """Whether a request may have to wait. Without a bound the gate only counts."""
        return self._most is not None or self._kv is not None

    def tell_kv(self, backend: str, figures: KvFigures | None, *, up: bool) -> None:
        """What a backend said of its KV cache just now, and whether it is up; who fits now goes in."""
        if self._kv is None:
            return
        self._kv.tell(backend, figures, up=up)
        self._admit()
        self.series.kv_admission(self._kv.reserved, self._kv.limit)

    def enter(self, place: Place) -> bool:
        """Let the request in now, or let it wait: then false, and `place.granted` is to be awaited.

        Raises RefusedError when neither is possible.
        """
        if not self.bounded:
            place.state = "inside"
            self.running += 1
            return True
        if not self.queued and self._let_in(place):
            self.series.queue.observe(0.0)
            return True
        self._enqueue(place)
        return False

    def leave(self, place: Place, used: int | None = None) -> None:
        """The request is over, or it waits no longer; who is next goes in. `used` are its real tokens, if known."""
        state, place.state = place.state, "left"
        if state == "inside":
            self.running -= 1
            if self._kv is not None:
                self._kv.reserved -= place.held
            # Who failed keeps the estimate: failures must not be a way to the front.
            if used and place.waited is not None:
                self._queues[place.tenant.priority].correct(place, used - place.cost)
            if self.queued:
                self._note_pace()
                self._admit()
            else:
                self._left_at = None
        elif state == "waiting":
            self._out_of_queue(place)
            self._admit()

    def retry_after_s(self) -> float:
        """Seconds until the queue of now will have gone in, as fast as it lately went."""
        return min(max(self._pace_s * (self.queued + 1), 1.0), _LONGEST_RETRY_S)

    def _let_in(self, place: Place) -> bool:
        """Let it in, where it fits."""
        if self._most is not None and self.running >= self._most:
            return False
        if self._kv is not None:
            held = self._kv.hold(place.cost, alone=self.running == 0)
            if held is None:
                return False
            place.held = held
        place.state = "inside"
        self.running += 1
        return True

    def _admit(self) -> None:
        for queue in self._queues.values():
            while (place := queue.first()) is not None:
                if not self._let_in(place):
                    return
                queue.serve(place)
                self._end_wait(place)
                assert place.granted is not None
                # A task that was cancelled in this turn of the loop gives the place back when it runs.
                if not place.granted.done():
                    place.granted.set_result(None)

    def _enqueue(self, place: Place) -> None:
        if self.queued >= self._settings.max_queued:
            self._make_room(place)
        loop = asyncio.get_running_loop()
        place.state, place.since = "waiting", loop.time()
        place.granted = loop.create_future()
        place.timer = loop.call_later(self._settings.queue_timeout_s, self._expire, place)
        self._queues[place.tenant.priority].add(place)
        self.queued += 1
        self.series.queued.set(self.queued)

    def _make_room(self, place: Place) -> None:
        """Send away the youngest request of a lower class, or of a tenant that waits with more than its share."""
        victim = None if self._settings.max_queued == 0 else self._victim(place)
        if victim is None:
            self._refuse("queue_full", 429, "Too many requests wait for this model already; try again later.")
        self._out_of_queue(victim)
        self._fail(victim, "shed", 503, "The service is overloaded and gave this request's place to another one.")

    def _victim(self, place: Place) -> Place | None:
        own = place.tenant.priority
        for name in reversed(PRIORITIES):
            if name == own:
                return self._queues[name].surplus(place.tenant)
            if (found := self._queues[name].surplus()) is not None:
                return found
        return None

    def _expire(self, place: Place) -> None:
        self._out_of_queue(place)
        limit = f"{self._settings.queue_timeout_s:g}"
        self._fail(place, "queue_timeout", 408, f"No place became free for this request within {limit} s.")
        self._admit()

    def _out_of_queue(self, place: Place) -> None:
        self._queues[place.tenant.priority].discard(place)
        self._end_wait(place)

    def _end_wait(self, place: Place) -> None:
        assert place.timer is not None
        place.timer.cancel()
        self.queued -= 1
        self.series.queued.set(self.queued)
        place.waited = asyncio.get_running_loop().time() - place.since
        self.series.queue.observe(place.waited)

    def _fail(self, place: Place, reason: Refusal, status: int, text: str) -> None:
        place.state = "left"
        assert place.granted is not None
        if not place.granted.done():
            place.granted.set_exception(self._refusal(reason, status, text))

    def _refuse(self, reason: Refusal, status: int, text: str) -> NoReturn:
        raise self._refusal(reason, status, text)

    def _refusal(self, reason: Refusal, status: int, text: str) -> RefusedError:
        self.series.refused(reason)
        return RefusedError(text, status=status, code=reason, retry_after_s=self.retry_after_s())

    def _note_pace(self) -> None:
        """Mean seconds between two requests that leave while others wait."""
        now = asyncio.get_running_loop().time()
        if self._left_at is not None:
            last = now - self._left_at
            self._pace_s += (_SMOOTHING if self._pace_s else 1.0) * (last - self._pace_s)
        self._left_at = now
