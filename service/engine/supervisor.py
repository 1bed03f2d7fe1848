"""Several engines beside one main task: they live and end together."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from service.engine.launcher import EngineLauncher
from service.engine.plan import EnginePlan
from service.settings import EngineSettings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Engines:
    """The engines that run beside the main task."""

    launchers: tuple[EngineLauncher, ...]

    async def wait_ready(self) -> None:
        """Return once every engine has been ready."""
        for launcher in self.launchers:
            await launcher.ready.wait()


Main = Callable[[Engines], Coroutine[Any, Any, None]]


async def run_beside(plans: Iterable[EnginePlan], settings: EngineSettings, main: Main) -> None:
    """Run the planned engines until `main` returns, then stop them.

    Raises what `main` raises, and EngineError when an engine gives up; `main` is cancelled then. No process
    of an engine is left when this returns.
    """
    engines = Engines(tuple(EngineLauncher(plan, settings) for plan in plans))
    running = {asyncio.create_task(launcher.run()) for launcher in engines.launchers}
    foreground = asyncio.create_task(main(engines))
    try:
        done, _ = await asyncio.wait({foreground, *running}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        with _deaf():
            await _end({foreground})
            await _end(running)


async def until_signal() -> None:
    """Return at the first SIGINT or SIGTERM. Changes the loop's handlers for both, for good."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


@contextmanager
def _deaf() -> Generator[None, None, None]:
    """Engines are ending within their grace period; another Ctrl-C must not cut that short."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, lambda: None)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            continue
    for task in tasks:
        if not task.cancelled():
            task.exception()
