from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from service.engine import group
from service.engine.launcher import EngineLauncher
from service.engine.plan import EnginePlan
from service.errors import EngineError
from service.settings import EngineSettings
from tests.engine_launcher.conftest import PlanFake

Starts = Callable[[], list[int]]


@asynccontextmanager
async def running(plan: EnginePlan, settings: EngineSettings) -> AsyncIterator[EngineLauncher]:
    launcher = EngineLauncher(plan, settings)
    task = asyncio.create_task(launcher.run())
    waiting = asyncio.create_task(launcher.ready.wait())
    await asyncio.wait({task, waiting}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        assert launcher.ready.is_set()
        yield launcher
    finally:
        task.cancel()
        await asyncio.wait({task})


async def kill_by_request(plan: EnginePlan) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{plan.url}/v1/completions", json={"prompt": "die", "max_tokens": 1})


async def test_ready_after_a_generation_and_gone_after_a_stop(
    plan: PlanFake, settings: EngineSettings, starts: Starts
) -> None:
    async with running(plan("slow"), settings) as launcher:
        assert launcher.ready.is_set()
        assert len(starts()) == 1
    assert not launcher.ready.is_set()
    assert not alive(starts())


async def test_health_alone_is_not_readiness(plan: PlanFake, settings: EngineSettings) -> None:
    impatient = settings.model_copy(update={"ready_timeout_s": 1.0, "max_restarts": 0})
    with pytest.raises(EngineError, match="failed to start 1 times"):
        await EngineLauncher(plan("tokenless"), impatient).run()


async def test_a_crash_at_start_is_retried(plan: PlanFake, settings: EngineSettings, starts: Starts) -> None:
    async with running(plan("crash-once"), settings) as launcher:
        assert launcher.ready.is_set()
        assert len(starts()) == 2


async def test_too_many_crashes_give_up_with_the_last_line(
    plan: PlanFake, settings: EngineSettings, starts: Starts
) -> None:
    with capture_logs() as logs, pytest.raises(EngineError, match="3 times; its last line: .*out of luck"):
        await EngineLauncher(plan("crash"), settings).run()
    assert len(starts()) == 3
    assert {entry["status"] for entry in logs if entry["event"] == "engine died before it was ready"} == {1}


async def test_without_restarts_the_first_end_is_the_last(
    plan: PlanFake, settings: EngineSettings, starts: Starts
) -> None:
    planned = plan()
    launcher = EngineLauncher(planned, settings.model_copy(update={"restart": False}))
    task = asyncio.create_task(launcher.run())
    await asyncio.wait_for(launcher.ready.wait(), 10)
    await kill_by_request(planned)
    with pytest.raises(EngineError, match="the engine of pool 'default' ended; its last line: "):
        await task
    assert len(starts()) == 1


async def test_a_crash_while_serving_restarts(plan: PlanFake, settings: EngineSettings, starts: Starts) -> None:
    planned = plan()
    async with running(planned, settings) as launcher:
        for crashes in (1, 2, 3, 4):
            await kill_by_request(planned)
            async with asyncio.timeout(10):
                while len(starts()) == crashes or not launcher.ready.is_set():
                    await asyncio.sleep(0.02)


@pytest.mark.parametrize("option", ["child", "deaf"])
async def test_stop_leaves_no_process(plan: PlanFake, settings: EngineSettings, starts: Starts, option: str) -> None:
    async with running(plan(option), settings):
        leader = starts()[0]
        members = group.members(os.getpgid(leader))
        assert len(members) >= (3 if option == "child" else 2)
    assert not alive(members)


async def test_a_busy_port_is_refused(plan: PlanFake, settings: EngineSettings, starts: Starts) -> None:
    planned = plan()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", planned.port))
        taken.listen()
        with pytest.raises(EngineError, match=f"port {planned.port} on 127.0.0.1 is not free"):
            await EngineLauncher(planned, settings).run()
    assert starts() == []


async def test_engine_lines_keep_their_level(plan: PlanFake, settings: EngineSettings) -> None:
    with capture_logs() as logs:
        async with running(plan(), settings):
            pass
    forwarded = [(entry["log_level"], entry["event"]) for entry in logs if entry.get("source") == "engine"]
    assert forwarded == [("warning", "fake: a warning")]
    verbose = settings.model_copy(update={"log_level": "info"})
    with capture_logs() as logs:
        async with running(plan(), verbose):
            pass
    assert ("info", "fake: starting") in [(entry["log_level"], entry["event"]) for entry in logs]


def alive(pids: list[int] | tuple[int, ...]) -> list[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "gone"

    return [pid for pid in pids if state(pid) not in ("gone", "Z", "X")]
