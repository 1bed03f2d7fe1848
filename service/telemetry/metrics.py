"""The Prometheus series. Labels come from configuration only, never from request text."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Gauge

from service.telemetry.series import Counter, CounterChild, Histogram
from service.telemetry.speculation import SpeculationRecord
from service.telemetry.speedup import SpeedupEstimate

Outcome = Literal["ok", "client_error", "backend_error", "aborted", "refused"]
Refusal = Literal[
    "queue_full", "queue_timeout", "shed", "tenant_concurrency", "request_rate", "token_rate", "rate_store_away"
]

POOL = ("model", "pool")
DRAFT = ("model", "pool", "algorithm", "draft")
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600)
FIRST_TOKEN = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 50, 100)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
OWN_TIME = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1)
LENGTHS = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12, 16)
MOST_SOURCES = 32
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)


class Metrics:
    """All series of one service, registered in the registry that it is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

        def counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
            return Counter(f"specserve_{name}", text, labels, registry)

        def gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
            return Gauge(name, text, labels, namespace="specserve", registry=registry)

        def histogram(name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"specserve_{name}", text, labels, registry, bounds=buckets)

        self.requests = counter("requests", "Requests by outcome", (*POOL, "outcome"))
        self.in_flight = gauge("requests_in_flight", "Requests sent to a backend and not finished", POOL)
        self.draining = gauge("draining", "1: the gateway finishes its requests and takes no more", ())
        self.backend_up = gauge("backend_up", "1: the backend passed its last health check", (*POOL, "backend"))
        self.duration = histogram("request_duration_seconds", "Arrival to last byte", POOL, SECONDS)
        self.first_token = histogram("time_to_first_token_seconds", "Arrival to first streamed byte", POOL, FIRST_TOKEN)
        self.inter_token = histogram(
            "inter_token_latency_seconds",
            "Mean seconds per token after the first; one a stream",
            POOL,
            PER_TOKEN,
        )
        self.queue = histogram("queue_seconds", "Waiting for admission; none without a bound", POOL, SECONDS)
        self.queued = gauge("requests_queued", "Requests that wait for admission", POOL)
        self.refused = counter("requests_refused", "Requests that admission sent away", (*POOL, "reason"))
        self.kv_reserved = gauge("admission_kv_reserved_tokens", "Tokens of admitted requests, by estimate", POOL)
        self.kv_limit = gauge("admission_kv_limit_tokens", "The most that admitted requests may hold", POOL)
        self.rate_store_errors = counter("rate_store_errors", "Times that the store of rate limits was away", ())
        self.overhead = histogram(
            "overhead_seconds", "Time in the gateway's own code until its answer begins", POOL, OWN_TIME
        )
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens that the engine reported", POOL)
        self.cached_tokens = counter("cached_prompt_tokens", "Prompt tokens found in the prefix cache", POOL)
        self.completion_tokens = counter("completion_tokens", "Tokens that the engine generated", POOL)
        self.drafts = counter("spec_decode_num_drafts", "Verify steps of answered requests", DRAFT)
        self.draft_tokens = counter("spec_decode_num_draft_tokens", "Draft tokens proposed", DRAFT)
        self.accepted_tokens = counter("spec_decode_num_accepted_tokens", "Draft tokens accepted", DRAFT)
        self.accepted_per_position = counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens accepted, by position",
            (*DRAFT, "position"),
        )
        self.source_drafts = counter(
            "spec_decode_source_draft_tokens", "Draft tokens proposed, by source", (*DRAFT, "source")
        )
        self.source_accepted = counter(
            "spec_decode_source_accepted_tokens", "Draft tokens accepted, by source", (*DRAFT, "source")
        )
        self.draft_seconds = counter("spec_draft_seconds", "Time spent on drafts of answered requests", DRAFT)
        self.verify_seconds = counter(
            "spec_verify_seconds", "Time of verify passes, once for each answered request in them", DRAFT
        )
        self.aborted_drafts = counter("spec_decode_aborted_num_drafts", "Verify steps of unanswered requests", DRAFT)
        self.aborted_draft_tokens = counter(
            "spec_decode_aborted_num_draft_tokens", "Draft tokens proposed for unanswered requests", DRAFT
        )
        self.aborted_accepted_tokens = counter(
            "spec_decode_aborted_num_accepted_tokens", "Draft tokens accepted in unanswered requests", DRAFT
        )
        self.acceptance_length = histogram(
            "spec_acceptance_length", "Tokens per verify step, bonus included; one a request", DRAFT, LENGTHS
        )
        self.acceptance_rate = histogram(
            "spec_acceptance_rate", "Accepted over proposed drafts; one a request", DRAFT, RATES
        )
        self.speedup = gauge("spec_speedup_estimate", "Plain over drafted seconds per token, as seen", DRAFT)

    def unrouted(self, outcome: Outcome) -> None:
        """Count a request that ended before it had a model and a pool."""
        self.requests.labels(model="", pool="", outcome=outcome).inc()


class PoolMetrics:
    """The series of one pool, with the labels looked up once."""

    def __init__(self, metrics: Metrics, *, model: str, pool: str, algorithm: str, draft: str) -> None:
        own = {"model": model, "pool": pool}
        drafted = {**own, "algorithm": algorithm, "draft": draft}
        outcomes: tuple[Outcome, ...] = ("ok", "client_error", "backend_error", "aborted", "refused")
        self._metrics = metrics
        self._drafted = drafted
        self.requests = {name: metrics.requests.labels(**own, outcome=name) for name in outcomes}
        self.in_flight = metrics.in_flight.labels(**own)
        self.duration = metrics.duration.labels(**own)
        self.first_token = metrics.first_token.labels(**own)
        self.inter_token = metrics.inter_token.labels(**own)
        self.queue = metrics.queue.labels(**own)
        self.queued = metrics.queued.labels(**own)
        self.overhead = metrics.overhead.labels(**own)
        self.prompt_tokens = metrics.prompt_tokens.labels(**own)
        self.cached_tokens = metrics.cached_tokens.labels(**own)
        self.completion_tokens = metrics.completion_tokens.labels(**own)
        self._estimate = SpeedupEstimate()
        # Made at the first record: a pool that never speculated has no series, not zeros.
        self._answered: _SpeculationSeries | None = None

    def refused(self, reason: Refusal) -> None:
        """Count a request that admission sent away."""
        own = self._drafted
        self._metrics.refused.labels(model=own["model"], pool=own["pool"], reason=reason).inc()

    def kv_admission(self, reserved: int, limit: float | None) -> None:
        """What admitted requests hold of the KV cache and the most that they may; nothing while that is unknown."""
        if limit is not None:
            own = {"model": self._drafted["model"], "pool": self._drafted["pool"]}
            self._metrics.kv_reserved.labels(**own).set(reserved)
            self._metrics.kv_limit.labels(**own).set(limit)

    def backend_up(self, backend: str, up: bool) -> None:
        """Set the gauge of one backend; `backend` is its configured URL."""
        self._metrics.backend_up.labels(model=self._drafted["model"], pool=self._drafted["pool"], backend=backend).set(
            up
        )

    def speculation(self, record: SpeculationRecord, *, exemplar: dict[str, str] | None = None) -> None:
        """Add the record of a request that was answered."""
        if self._answered is None:
            self._answered = _SpeculationSeries(self._metrics, self._drafted)
        self._answered.add(record, exemplar)

    def aborted_speculation(self, record: SpeculationRecord) -> None:
        """Add the record of an aborted or failed request: kept apart, for no client received it."""
        own, labels = self._metrics, self._drafted
        own.aborted_drafts.labels(**labels).inc(record.steps)
        own.aborted_draft_tokens.labels(**labels).inc(record.proposed)
        own.aborted_accepted_tokens.labels(**labels).inc(record.accepted)

    def pace(self, seconds_per_token: float, *, drafted: bool) -> None:
        """Observe the mean pace of one stream and refresh the speed-up estimate."""
        self.inter_token.observe(seconds_per_token)
        estimate = self._estimate.add(seconds_per_token, drafted=drafted)
        if estimate is not None:
            self._metrics.speedup.labels(**self._drafted).set(estimate)


class _SpeculationSeries:
    """The series that answered requests add to, looked up once."""

    def __init__(self, metrics: Metrics, labels: dict[str, str]) -> None:
        self._drafts = metrics.drafts.labels(**labels)
        self._draft_tokens = metrics.draft_tokens.labels(**labels)
        self._accepted_tokens = metrics.accepted_tokens.labels(**labels)
        self._length = metrics.acceptance_length.labels(**labels)
        self._rate = metrics.acceptance_rate.labels(**labels)
        self._per_position = metrics.accepted_per_position
        self._metrics = metrics
        self._labels = labels
        self._sources: set[str] = set()
        self._positions: list[CounterChild] = []

    def add(self, record: SpeculationRecord, exemplar: dict[str, str] | None) -> None:
        self._drafts.inc(record.steps)
        self._draft_tokens.inc(record.proposed)
        self._accepted_tokens.inc(record.accepted)
        for position, accepted in enumerate(record.accepted_per_position()):
            self._position(position).inc(accepted)
        self._add_account(record)
        if (length := record.mean_acceptance_length) is not None:
            self._length.observe(length, exemplar)
        if (rate := record.acceptance_rate) is not None:
            self._rate.observe(rate, exemplar)

    def _add_account(self, record: SpeculationRecord) -> None:
        """Sources and seconds, where the engine told them."""
        own, labels = self._metrics, self._labels
        for counts in record.sources or ():
            # Sources are drafters' own tags; the bound keeps a careless third-party drafter from flooding the series.
            known = counts.source in self._sources or len(self._sources) < MOST_SOURCES
            source = counts.source if known else "other"
            self._sources.add(source)
            own.source_drafts.labels(**labels, source=source).inc(counts.proposed)
            own.source_accepted.labels(**labels, source=source).inc(counts.accepted)
        if record.draft_s is not None:
            own.draft_seconds.labels(**labels).inc(record.draft_s)
        if record.verify_s is not None:
            own.verify_seconds.labels(**labels).inc(record.verify_s)

    def _position(self, position: int) -> CounterChild:
        while len(self._positions) <= position:
            name = str(len(self._positions))
            self._positions.append(self._per_position.labels(**self._labels, position=name))
        return self._positions[position]
