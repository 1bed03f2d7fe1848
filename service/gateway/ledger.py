"""Last step of a request: its outcome, times and figures go into the metrics and one log line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from structlog.typing import FilteringBoundLogger

from service.gateway.admission.place import Place
from service.gateway.endpoints import ENDPOINTS, Kind
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.gateway.tally import Tally
from service.telemetry.metrics import Metrics, Outcome
from service.telemetry.speculation import merge

_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass
class Ledger:
    """What is known of one request so far. Times are seconds of `perf_counter`.

    It is closed before the last byte goes out, once the backend works no more for the request: who has read an answer
    finds it in the metrics. Then `leave` gives its place back.
    """

    kind: Kind
    request_id: str
    metrics: Metrics
    log: FilteringBoundLogger
    traceparent: str | None = None
    started: float = field(default_factory=perf_counter)
    prepared: Prepared | None = None
    pool: ServedPool | None = None
    backend: str | None = None
    tenant: str | None = None
    place: Place | None = None
    leave: Callable[[Place, int | None], None] | None = None
    tally: Tally | None = None
    outcome: Outcome = "backend_error"
    status: int | None = None
    reason: str | None = None
    first_byte: float | None = None
    ended: float | None = None
    overhead: float = 0.0
    closed: bool = False
    _mark: float | None = None

    def __post_init__(self) -> None:
        self._mark = self.started

    def pause(self) -> None:
        """The gateway begins to wait for somebody else."""
        if self._mark is not None:
            self.overhead += perf_counter() - self._mark
            self._mark = None

    def resume(self) -> None:
        """The gateway's own work goes on."""
        self._mark = perf_counter()

    def succeed(self) -> None:
        """The whole answer came: close as `ok`."""
        self.outcome, self.status, self.reason = "ok", 200, None
        self.pause()
        self.close()

    def fail(self, outcome: Outcome, reason: str, status: int | None = None) -> None:
        """Note why there is no whole answer; an earlier reason is kept behind it."""
        if self.closed:
            return
        self.outcome = outcome
        self.pause()
        self.ended = perf_counter()
        self.reason = f"{reason} ({self.reason})" if self.reason and self.reason != reason else reason
        self.status = self.status or status

    def close(self) -> None:
        """Count the request and log it, the first time."""
        if self.closed:
            return
        self.closed = True
        if self.place is not None and self.leave is not None:
            self.leave(self.place, self._used())
        ended = self.ended or perf_counter()
        if ENDPOINTS[self.kind].metered:
            if self.pool is None:
                self.metrics.unrouted(self.outcome)
            else:
                self._count(self.pool, ended)
        self.log.info("request", **self._line(ended))

    def _used(self) -> int | None:
        """Tokens that the request took, as the engine told; 0 where it failed before its answer began."""
        prompt = self.tally.tokens("prompt_tokens") if self.tally else None
        if self.tally is not None and prompt is not None:
            return prompt + (self.tally.tokens("completion_tokens") or 0)
        failed = self.outcome in ("client_error", "backend_error", "refused")
        return 0 if failed and self.first_byte is None else None

    def _count(self, pool: ServedPool, ended: float) -> None:
        series, exemplar = pool.metrics, self._exemplar()
        series.requests[self.outcome].inc(1, exemplar)
        series.duration.observe(ended - self.started, exemplar)
        if self.status is not None:
            series.overhead.observe(self.overhead)
        if self.first_byte is not None:
            series.first_token.observe(self.first_byte - self.started, exemplar)
        if self.tally is not None:
            self._count_tokens(self.tally, pool, ended)
            self._count_speculation(self.tally, pool, exemplar)

    def _count_tokens(self, tally: Tally, pool: ServedPool, ended: float) -> None:
        series = pool.metrics
        if (prompt := tally.tokens("prompt_tokens")) is not None:
            series.prompt_tokens.inc(prompt)
        if (cached := tally.cached_tokens) is not None:
            series.cached_tokens.inc(cached)
        if (completion := tally.tokens("completion_tokens")) is not None:
            series.completion_tokens.inc(completion)
            pace = self._pace(completion, ended)
            if pace is not None:
                series.pace(pace, drafted=bool(tally.records))

    def _count_speculation(self, tally: Tally, pool: ServedPool, exemplar: dict[str, str] | None) -> None:
        record = merge(tally.records or ())
        if record is None:
            return
        if self.outcome == "ok":
            pool.metrics.speculation(record, exemplar=exemplar)
        else:
            pool.metrics.aborted_speculation(record)

    def _pace(self, completion: int, ended: float) -> float | None:
        """Mean seconds per token after the first, of a whole stream with one choice."""
        if self.first_byte is None or self.prepared is None:
            return None
        if self.prepared.choices != 1 or completion < 2 or self.outcome != "ok":
            return None
        return (ended - self.first_byte) / (completion - 1)

    def _exemplar(self) -> dict[str, str] | None:
        found = _TRACE.fullmatch(self.traceparent) if self.traceparent else None
        return {"trace_id": found[1]} if found else None

    def _line(self, ended: float) -> dict[str, object]:
        prepared, tally = self.prepared, self.tally
        record = merge(tally.records or ()) if tally else None
        line = {
            "request_id": self.request_id,
            "kind": self.kind,
            "outcome": self.outcome,
            "status": self.status,
            "model": prepared.model.name if prepared else None,
            "pool": self.pool.name if self.pool else None,
            "backend": self.backend,
            "tenant": self.tenant,
            "stream": prepared.stream if prepared else None,
            "choices": prepared.choices if prepared else None,
            "mode": prepared.extras.mode if prepared else None,
            "duration_ms": round((ended - self.started) * 1e3, 2),
            "first_byte_ms": round((self.first_byte - self.started) * 1e3, 2) if self.first_byte else None,
            "queued_ms": round(self.place.waited * 1e3, 2) if self.place and self.place.waited is not None else None,
            "overhead_ms": round(self.overhead * 1e3, 3),
            "prompt_tokens": tally.tokens("prompt_tokens") if tally else None,
            "completion_tokens": tally.tokens("completion_tokens") if tally else None,
            "drafted": record.proposed if record else None,
            "accepted": record.accepted if record else None,
            "speculation_fault": tally.fault if tally else None,
            "reason": self.reason,
        }
        return {key: value for key, value in line.items() if value is not None}
