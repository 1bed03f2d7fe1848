"""The KV cache's series: what backends told when they were asked last, and what each pool's cache is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

_BACKEND = ("model", "pool", "backend")
_STATE = (*_BACKEND, "state")


@dataclass(frozen=True, slots=True)
class KvFigures:
    """One backend's KV cache. What it did not tell is None.

    `room` are free tokens of the pool, cached prefixes counted as free; `full` are tokens held by running requests,
    `evicted` those that running requests have lost. Counts are of the engine's whole life: `evictions` times that a
    request lost tokens, `evicted_total` tokens lost, and key rows that decode steps of finished requests read out of
    the visible ones.
    """

    room: int | None = None
    full: int | None = None
    evicted: int | None = None
    token_bytes: int | None = None
    evictions: int | None = None
    evicted_total: int | None = None
    rows_read: int | None = None
    rows_visible: int | None = None


@dataclass(frozen=True, slots=True)
class KvKind:
    """What a pool's cache is: what channels are stored as, what compresses it (`none`: nothing), the file name of its
    calibration (empty: none), and the quality gate's word: `passed`, `missed`, `unproven`, or `whole` where nothing
    needs a proof."""

    dtype: str
    policy: str
    calibration: str
    gate: str


class KvSeries(Collector):
    """One thread tells, any may collect. A backend that tells nothing has no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._kinds: dict[tuple[str, str], KvKind] = {}
        self._figures: dict[tuple[str, str, str], KvFigures] = {}
        registry.register(self)

    def describe_pool(self, model: str, pool: str, kind: KvKind) -> None:
        """What the pool's cache is."""
        self._kinds[model, pool] = kind

    def tell(self, model: str, pool: str, backend: str, figures: KvFigures | None) -> None:
        """What a backend said now; None: it said nothing."""
        if figures is None:
            self._figures.pop((model, pool, backend), None)
        else:
            self._figures[model, pool, backend] = figures

    def collect(self) -> Iterator[Metric]:
        """All families, those without series too, so that their names are known."""
        info = InfoMetricFamily("specserve_kv_cache", "The pool's KV cache", labels=("model", "pool"))
        for (model, pool), kind in tuple(self._kinds.items()):
            words = {"dtype": kind.dtype, "policy": kind.policy, "calibration": kind.calibration, "gate": kind.gate}
            info.add_metric((model, pool), words)
        yield info
        known = tuple(self._figures.items())
        yield _gauge("room_tokens", "Free tokens of the KV pool", [(key, f.room) for key, f in known])
        yield self._states("tokens", "Tokens of running requests by state of their KV", known, False)
        yield self._states("bytes", "KV bytes of running requests, and those that evicted tokens had", known, True)
        for name, text, values in (
            ("evictions", "Times that a request lost tokens", [f.evictions for _, f in known]),
            ("evicted_tokens", "Tokens that requests lost", [f.evicted_total for _, f in known]),
            ("rows_read", "Key rows that decode steps of finished requests read", [f.rows_read for _, f in known]),
            ("rows_visible", "Key rows that the whole cache had for them", [f.rows_visible for _, f in known]),
        ):
            family = CounterMetricFamily(f"specserve_kv_{name}", text, labels=_BACKEND)
            for (key, _), value in zip(known, values, strict=True):
                if value is not None:
                    family.add_metric(key, value)
            yield family

    def _states(
        self, name: str, text: str, known: tuple[tuple[tuple[str, str, str], KvFigures], ...], per_token: bool
    ) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"specserve_kv_{name}", text, labels=_STATE)
        for key, figures in known:
            size = figures.token_bytes if per_token else 1
            for state, tokens in (("full", figures.full), ("evicted", figures.evicted)):
                if tokens is not None and size is not None:
                    family.add_metric((*key, state), tokens * size)
        return family


def _gauge(name: str, text: str, values: list[tuple[tuple[str, str, str], int | None]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"specserve_kv_{name}", text, labels=_BACKEND)
    for key, value in values:
        if value is not None:
            family.add_metric(key, value)
    return family
