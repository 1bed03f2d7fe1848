"""Several engines beside one main task: they live and end together."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from service.engine.launcher import EngineLauncher
from service.engine.plan import EnginePlan
from service.settings import EngineSettings


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
        await _end({foreground})
        await _end(running)


async def until_signal() -> None:
    """Return at the first SIGINT or SIGTERM. Changes the loop's handlers for both, for good."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            # A second Ctrl-C must not leave an engine behind; its grace period bounds the wait.
            continue
    for task in tasks:
        if not task.cancelled():
            task.exception()
