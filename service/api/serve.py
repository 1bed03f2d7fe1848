"""Runs both servers in one process and drains them on SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
import uvloop
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, disable_created_metrics

from service.api.app import create_app, create_ops_app
from service.api.server import make_server
from service.gateway.service import Gateway
from service.profiles.config import Config
from service.telemetry.logs import configure

_GC_THRESHOLDS = (10_000, 20, 20)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(config: Config) -> None:
    """Serve until SIGINT or SIGTERM; blocks."""
    uvloop.run(run(config))


async def run(config: Config) -> None:
    """Serve both ports until SIGINT or SIGTERM, then let open requests finish within `drain_timeout_s`.

    Meant for a uvloop loop in the main thread. The operations port runs in a thread with its own loop, so
    that it answers while the API loop is busy. Raises SystemExit, after a log line, when a port is taken.
    """
    configure(config.log_format, config.log_level)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    app = create_app(config, registry=registry)
    gateway: Gateway = app.state.gateway
    settings = config.gateway
    operations = _OpsThread(make_server(create_ops_app(gateway), settings.host, settings.ops_port, drain_s=1))
    api = make_server(app, settings.host, settings.port, drain_s=settings.drain_timeout_s)
    sockets = [api.config.bind_socket()]
    operations.start()
    try:
        with _signals(gateway, api):
            settle()
            gateway.log.info("listening", host=settings.host, port=settings.port, ops_port=settings.ops_port)
            await api.serve(sockets)
    finally:
        await asyncio.to_thread(operations.stop)


def settle() -> None:
    """Keep what was made until now out of every later garbage collection, and collect less often.

    Requests free what they made by reference counts; collections are for the rare cycle, such as a traceback's.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@contextmanager
def _signals(gateway: Gateway, api: uvicorn.Server) -> Generator[None, None, None]:
    """The first signal drains, the second ends at once; SIGHUP reads the files of keys again."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if gateway.draining:
            api.force_exit = True
        gateway.draining = True
        api.should_exit = True

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, gateway.reload)
    try:
        yield
    finally:
        for number in (*_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


class _OpsThread:
    """The operations server in a thread of its own."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._run, name="operations", daemon=True)

    def start(self) -> None:
        """Take the port, here and now so that a taken one stops the start, and serve it."""
        self._sockets = [self._server.config.bind_socket()]
        self._thread.start()

    def stop(self) -> None:
        """Ask the server to end and wait for it; blocks for at most five seconds."""
        self._server.should_exit = True
        self._thread.join(timeout=5)

    def _run(self) -> None:
        uvloop.run(self._server.serve(self._sockets))
