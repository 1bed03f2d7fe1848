from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from service.engine.supervisor import Engines, run_beside
from service.errors import EngineError
from service.settings import EngineSettings
from tests.engine_launcher.conftest import PlanFake
from tests.engine_launcher.test_launcher import alive


async def test_engines_end_with_the_main_task(
    plan: PlanFake, settings: EngineSettings, starts: Callable[[], list[int]]
) -> None:
    async def main(engines: Engines) -> None:
        await engines.wait_ready()
        assert alive(starts())

    await run_beside([plan("child")], settings, main)
    assert not alive(starts())


async def test_an_engine_that_gives_up_ends_the_main_task(plan: PlanFake, settings: EngineSettings) -> None:
    ended = asyncio.Event()

    async def main(engines: Engines) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(EngineError, match="failed to start"):
        await run_beside([plan("crash")], settings, main)
    assert ended.is_set()


async def test_errors_of_the_main_task_surface(plan: PlanFake, settings: EngineSettings) -> None:
    async def main(engines: Engines) -> None:
        raise ValueError("from main")

    with pytest.raises(ValueError, match="from main"):
        await run_beside([plan()], settings, main)


async def test_a_second_interrupt_leaves_no_engine(
    plan: PlanFake, settings: EngineSettings, starts: Callable[[], list[int]]
) -> None:
    async def main(engines: Engines) -> None:
        await engines.wait_ready()
        await asyncio.Event().wait()

    running = asyncio.create_task(run_beside([plan("deaf")], settings, main))
    async with asyncio.timeout(10):
        while not starts() or not alive(starts()):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(starts())
