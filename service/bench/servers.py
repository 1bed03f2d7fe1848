"""Engines that a benchmark starts for itself and stops again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from service.engine.log_lines import LogLine
from service.engine.process import EngineProcess
from service.engine.readiness import wait_ready
from service.engine.store import ModelStore
from service.errors import EngineError
from service.profiles.command import HOST, EngineCommand, ModelSource, engine_command
from service.profiles.schema import Profile
from service.settings import EngineSettings

SERVED_NAME = "bench"


@dataclass(frozen=True)
class Workshop:
    """What starting an engine needs: prepared models, time limits, a folder for logs."""

    store: ModelStore
    settings: EngineSettings
    logs: Path

    @asynccontextmanager
    async def serving(self, name: str, profile: Profile) -> AsyncIterator[str]:
        """An engine for the profile, its log in `<logs>/<name>.log`; gives its base URL.

        Raises EngineError when it ends or is not ready in time.
        """
        port = free_port()
        draft = profile.speculation.draft_model
        command = engine_command(
            profile,
            port=port,
            served_name=SERVED_NAME,
            target=self.source(profile.target.model),
            draft=None if draft is None else self.source(draft),
        )
        async with self.running(name, command, port) as url:
            yield url

    @asynccontextmanager
    async def running(self, name: str, command: EngineCommand, port: int) -> AsyncIterator[str]:
        """As `serving`, for a ready command that listens on `port`."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("w", encoding="utf-8") as log:

            def write(line: LogLine) -> None:
                log.write(f"{line.level} {line.text}\n")
                log.flush()

            engine = EngineProcess(command, grace_s=self.settings.stop_grace_s, log=write)
            await engine.start()
            try:
                url = f"http://{HOST}:{port}"
                await self._ready(name, engine, url)
                yield url
            finally:
                await engine.stop()

    async def _ready(self, name: str, engine: EngineProcess, url: str) -> None:
        ended = asyncio.create_task(engine.wait())
        ready = asyncio.create_task(wait_ready(url, SERVED_NAME))
        try:
            limit = self.settings.ready_timeout_s
            await asyncio.wait({ended, ready}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                what = f"ended with status {ended.result()}" if ended.done() else f"was not ready in {limit:.0f} s"
                last = " | ".join(engine.tail[-5:])
                raise EngineError(f"the engine {name!r} {what}; see {self.logs / name}.log; its last lines: {last}")
            ready.result()
        finally:
            ended.cancel()
            ready.cancel()

    def source(self, model: str) -> ModelSource:
        """Where the engine finds a prepared model."""
        return ModelSource(self.store.location(model), self.store.is_offline(model), self.store.tool_call_parser(model))


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
