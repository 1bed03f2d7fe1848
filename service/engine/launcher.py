"""Keeps one engine running: start, readiness, restart after a crash, stop."""

from __future__ import annotations

import asyncio

import structlog

from service.engine.backoff import Backoff
from service.engine.log_lines import LogLine
from service.engine.plan import EnginePlan
from service.engine.process import EngineProcess, refuse_busy_port
from service.engine.readiness import wait_ready
from service.errors import EngineError
from service.settings import EngineSettings

_LEVELS = ("debug", "info", "warning", "error", "critical")


class EngineLauncher:
    """Runs one planned engine until it is cancelled. `ready` is set while the engine can generate."""

    def __init__(self, plan: EnginePlan, settings: EngineSettings) -> None:
        self.plan = plan
        self.ready = asyncio.Event()
        self._settings = settings
        self._log = structlog.get_logger("service.engine").bind(pool=plan.pool)
        self._forwarded = _LEVELS[_LEVELS.index(settings.log_level) :]

    async def run(self) -> None:
        """Start the engine and start it again whenever it ends; cancel to stop it with all its processes.

        Raises EngineError when the port is busy, when it crashed too often without becoming ready, and at its first
        end where the settings say not to restart.
        """
        backoff = Backoff(self._settings)
        while True:
            ready_s, tail = await self._run_once()
            if not self._settings.restart:
                raise EngineError(f"the engine of pool {self.plan.pool!r} ended; {_last(tail)}")
            wait_s = backoff.after_crash(ready_s)
            if wait_s is None:
                failed = f"the engine of pool {self.plan.pool!r} failed to start {backoff.failed_starts} times"
                raise EngineError(f"{failed}; {_last(tail)}")
            self._log.error("engine ended", restart_in_s=wait_s, was_ready_s=ready_s)
            await asyncio.sleep(wait_s)

    async def _run_once(self) -> tuple[float | None, tuple[str, ...]]:
        """Seconds that the engine was ready (None: never) and its last lines."""
        # Another server on the port would answer the readiness probe in the engine's place.
        refuse_busy_port(self.plan.host, self.plan.port)
        engine = EngineProcess(self.plan.command, grace_s=self._settings.stop_grace_s, log=self._forward)
        await engine.start()
        self._log.info("engine starting", url=self.plan.url, pid=engine.pid)
        try:
            return await self._watch(engine), engine.tail
        finally:
            self.ready.clear()
            await engine.stop()
            self._log.info("engine stopped", pid=engine.pid)

    async def _watch(self, engine: EngineProcess) -> float | None:
        clock = asyncio.get_running_loop().time
        started = clock()
        ended = asyncio.create_task(engine.wait())
        ready = asyncio.create_task(wait_ready(self.plan.url, self.plan.model if self.plan.generates else None))
        try:
            await asyncio.wait(
                {ended, ready}, timeout=self._settings.ready_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ended.done() or not ready.done():
                self._report_failed_start(engine, ended.result() if ended.done() else None)
                return None
            ready.result()
            self.ready.set()
            since = clock()
            self._log.info("engine ready", seconds=round(since - started, 1))
            status = await ended
            self._log.error("engine died", status=status)
            return clock() - since
        finally:
            ended.cancel()
            ready.cancel()

    def _report_failed_start(self, engine: EngineProcess, status: int | None) -> None:
        for line in engine.tail:
            self._log.error(line, source="engine")
        if status is None:
            self._log.error("engine not ready in time", seconds=self._settings.ready_timeout_s)
        else:
            self._log.error("engine died before it was ready", status=status)

    def _forward(self, line: LogLine) -> None:
        if line.level in self._forwarded:
            self._log.log(_STDLIB_LEVELS[line.level], line.text, source="engine")


def _last(tail: tuple[str, ...]) -> str:
    return f"its last line: {tail[-1] if tail else 'none'}"


_STDLIB_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
