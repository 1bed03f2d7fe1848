"""The gateway as one object: what every request shares."""

from __future__ import annotations

from time import time

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from service.gateway.admission.control import Admission
from service.gateway.admission.keyring import Keyring
from service.gateway.health import HealthChecks, missing
from service.gateway.kv_watch import KvWatch, describe_pools
from service.gateway.pools import build_catalog
from service.gateway.reaper import Reaper
from service.gateway.upstream import Upstream
from service.profiles.config import Config
from service.telemetry.kv import KvSeries
from service.telemetry.metrics import Metrics


class Gateway:
    """Catalog, upstream session, metrics and background work of one service.

    `start` and `stop` run in the event loop that serves requests. `draining` and the backends' health may be
    read from other threads.
    """

    def __init__(self, config: Config, registry: CollectorRegistry) -> None:
        self.config = config
        self.settings = config.gateway
        self.metrics = Metrics(registry)
        self.catalog = build_catalog(config, self.metrics)
        self.keyring = _keyring(config)
        self.upstream = Upstream(config.gateway)
        self.reaper = Reaper(config.gateway.abort_grace_s)
        self.health = HealthChecks(self.catalog, self.upstream, config.gateway)
        self.kv_series = KvSeries(registry)
        self.kv_watch = KvWatch(self.catalog, self.upstream, self.kv_series, config.gateway)
        describe_pools(config, self.kv_series)
        self.log: FilteringBoundLogger = structlog.get_logger("specserve")
        self.admission = Admission(config.admission, self.metrics, self.log)
        self.started_at = int(time())
        self.draining = False
        self.metrics.draining.set_function(lambda: float(self.draining))

    async def start(self) -> None:
        """Open the upstream session and begin the checks of backends."""
        await self.upstream.start()
        self.health.start()
        self.kv_watch.start()

    def reload(self) -> None:
        """Read again what may change without a restart: the API keys. A faulty file changes nothing and is logged."""
        if self.keyring is not None:
            self.keyring.reload(self.log)

    async def stop(self) -> None:
        """Finish pending aborts, end the checks and close the session."""
        self.draining = True
        await self.kv_watch.stop()
        await self.health.stop()
        await self.reaper.stop()
        await self.admission.close()
        await self.upstream.close()

    def unready(self) -> list[str]:
        """Why the service should get no traffic now; empty when it should."""
        reasons = missing(self.catalog)
        return ["the service is shutting down", *reasons] if self.draining else reasons


def _keyring(config: Config) -> Keyring | None:
    """None when no key is asked for. Raises ConfigError for a faulty file."""
    path, single = config.gateway.api_keys, config.gateway.api_key
    if path is None and single is None:
        return None
    names = frozenset(name for model in config.models for name in (model.name, *model.aliases))
    return Keyring(path, None if single is None else single.get_secret_value(), names)
