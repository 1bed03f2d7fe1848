"""Background health checks of every backend."""

from __future__ import annotations

import asyncio

from service.gateway.backends import Backend
from service.gateway.pools import Catalog, ServedPool
from service.gateway.upstream import Upstream
from service.gateway.wire import BrokenError, UnreachableError
from service.settings import GatewaySettings


class HealthChecks:
    """Polls each backend, each in its own task, so that a slow one delays no other."""

    def __init__(self, catalog: Catalog, upstream: Upstream, settings: GatewaySettings) -> None:
        self._catalog = catalog
        self._upstream = upstream
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to poll in the running event loop."""
        self._tasks = [asyncio.create_task(self._poll(pool, backend)) for pool, backend in self._catalog.backends()]

    async def stop(self) -> None:
        """End the polling and wait for its tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _poll(self, pool: ServedPool, backend: Backend) -> None:
        while True:
            await check(backend, self._upstream, self._settings.health_timeout_s)
            pool.metrics.backend_up(backend.url, backend.health == "up")
            await asyncio.sleep(self._settings.health_interval_s)


async def check(backend: Backend, upstream: Upstream, timeout_s: float) -> None:
    """One health check; changes the backend's health and raises nothing for a sick backend."""
    try:
        status = await upstream.health(backend, timeout_s)
    except TimeoutError:
        backend.miss(f"no answer to the health check in {timeout_s:g} s")
    except (UnreachableError, BrokenError) as error:
        backend.mark_down(str(error) or type(error).__name__, away=True)
    else:
        if status < 400:
            backend.mark_up()
        else:
            backend.mark_down(f"the health check answered {status}")


def missing(catalog: Catalog) -> list[str]:
    """One sentence for each model without a healthy backend; empty when the service is ready."""
    reasons = []
    for model in catalog.models:
        backends = [backend for pool in model.pools for backend in pool.backends]
        if any(backend.health == "up" for backend in backends):
            continue
        details = "; ".join(f"{backend.url}: {backend.reason}" for backend in backends)
        reasons.append(f"model {model.name} has no healthy backend ({details or 'none is configured'})")
    return reasons
