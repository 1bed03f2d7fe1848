"""Background reading of the backends' KV figures, for the metrics and for admission."""

from __future__ import annotations

import asyncio
from pathlib import Path

from service.gateway.backends import Backend
from service.gateway.pools import Catalog, ServedPool
from service.gateway.upstream import Upstream
from service.gateway.wire import BrokenError, UnreachableError
from service.profiles.config import Config, Pool
from service.profiles.kv_methods import kv_policy, stored_as
from service.profiles.quality_file import read_quality
from service.settings import GatewaySettings
from service.telemetry.adapters.sglang_kv import read_figures
from service.telemetry.kv import KvFigures, KvKind, KvSeries


class KvWatch:
    """Asks each healthy backend as often as its health is checked, each in its own task."""

    def __init__(self, catalog: Catalog, upstream: Upstream, series: KvSeries, settings: GatewaySettings) -> None:
        self._catalog = catalog
        self._upstream = upstream
        self._series = series
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to ask in the running event loop."""
        for model in self._catalog.models:
            for pool in model.pools:
                for backend in pool.backends:
                    self._tasks.append(asyncio.create_task(self._watch(model.name, pool, backend)))

    async def stop(self) -> None:
        """End the asking and wait for its tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, model: str, pool: ServedPool, backend: Backend) -> None:
        while True:
            figures = await self._ask(pool, backend) if backend.health == "up" else None
            self._series.tell(model, pool.name, backend.url, figures)
            pool.gate.tell_kv(backend.url, figures, up=backend.health == "up")
            await asyncio.sleep(self._settings.health_interval_s)

    async def _ask(self, pool: ServedPool, backend: Backend) -> KvFigures | None:
        """None when the backend tells nothing that is known: it may be no SGLang, or busy."""
        try:
            limit_s, compressed = self._settings.health_timeout_s, pool.kv_policy is not None
            loads = await self._upstream.fetch(backend, b"/v1/loads", limit_s)
            # Only our plugin tells more, and what `/metrics` holds takes SGLang some milliseconds.
            metrics = await self._upstream.fetch(backend, b"/metrics", limit_s) if compressed else None
            return read_figures(loads, metrics)
        except (TimeoutError, UnreachableError, BrokenError, ValueError):
            return None


def describe_pools(config: Config, series: KvSeries) -> None:
    """Tell what each pool's cache is. Reads the quality reports that profiles name."""
    for model in config.models:
        for pool in model.pools:
            series.describe_pool(model.name, pool.name, kind_of(pool))


def kind_of(pool: Pool) -> KvKind:
    """The pool's cache in words. A report that judged something else proves nothing."""
    kv, target = pool.profile.kv, pool.profile.target
    policy, report = kv_policy(kv), read_quality(kv.quality_report)
    gate = "unproven"
    if policy is None:
        gate = "whole"
    elif report is not None and (report.policy, report.model) == (policy, target.model):
        gate = "passed" if report.passed else "missed"
    calibration = "" if kv.calibration is None else Path(kv.calibration).name
    return KvKind(stored_as(kv, target.dtype), policy or "none", calibration, gate)
