"""One engine process with all its children."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from service.engine import group
from service.engine.log_lines import LineParser, LogLine, lines
from service.errors import EngineError
from service.profiles.command import EngineCommand

_GUARD = Path(__file__).with_name("guard.py")
_LAST_OUTPUT_WAIT_S = 2.0


class EngineProcess:
    """Starts a command as a process group of its own and ends it whole.

    The group also ends by itself, within the grace period, when this process dies without saying goodbye.
    """

    def __init__(self, command: EngineCommand, *, grace_s: float, log: Callable[[LogLine], None]) -> None:
        self._command = command
        self._grace_s = grace_s
        self._log = log
        self._parser = LineParser()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Id of the process group. Raises EngineError before `start`."""
        return self._started().pid

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of output, oldest first."""
        return tuple(self._parser.tail)

    async def start(self) -> None:
        """Start the command; returns at once. Raises EngineError when it cannot be executed."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(_GUARD), str(self._grace_s), *self._command.argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._command.environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start {self._command.argv[0]}: {error.strerror}") from error
        self._reader = asyncio.create_task(self._forward(self._process.stdout))

    async def wait(self) -> int:
        """Wait for the command's end; returns its exit status, 128 + signal when a signal ended it."""
        return await self._started().wait()

    async def stop(self) -> None:
        """End the whole group: SIGTERM, grace period, SIGKILL. Does nothing when all is gone already.

        Raises EngineError when a process survives SIGKILL.
        """
        process = self._started()
        left = await group.end(process.pid, self._grace_s)
        if left:
            raise EngineError(f"processes {', '.join(map(str, left))} of the engine survive SIGKILL")
        await process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=_LAST_OUTPUT_WAIT_S)
            self._reader.cancel()

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise EngineError("the engine was not started")
        return self._process

    async def _forward(self, stream: asyncio.StreamReader | None) -> None:
        if stream is not None:
            async for line in lines(stream):
                self._log(self._parser.parse(line))


def refuse_busy_port(host: str, port: int) -> None:
    """Raises EngineError when something listens on the port already."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise EngineError(
                f"port {port} on {host} is not free ({error.strerror}): stop its user, or set another port"
            ) from error
