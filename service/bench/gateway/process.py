"""Server processes of the benchmark: started alone, frozen while another one is measured, stopped by their group."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_STOP_S = 5.0


@dataclass(frozen=True)
class Server:
    """A process group that serves `url`."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, url: str, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Server:
        """Start `command` with its output in `folder/name.log`. Raises OSError when it cannot be run."""
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **env},
            )
        return cls(name, url, process, log)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def freeze(self) -> None:
        """Stop the group's clocks: it takes no CPU until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """CPU seconds of the process and its children so far, user and system."""
        return float(sum(sum(each.cpu_times()[:2]) for each in self._family()))

    def rss_mb(self) -> float:
        """Resident memory of the process and its children, MiB."""
        return float(sum(each.memory_info().rss for each in self._family())) / 2**20

    async def stop(self) -> None:
        """End the group, first politely; waits for it."""
        self.thaw()
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while self.alive and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        self._signal(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)

    def _family(self) -> list[psutil.Process]:
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
