"""The guard ends work for the right reason and leaves foreign cancellation alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.gateway.guard import ClientLeftError, Guard, SilentBackendError


class Client:
    """`receive` of a client that leaves when told."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_a_client_that_leaves_ends_the_work() -> None:
    client = Client()
    asyncio.get_running_loop().call_later(0.02, client.left.set)
    with pytest.raises(ClientLeftError):
        async with Guard(client.receive):
            await asyncio.sleep(5)
    await asyncio.sleep(0)  # no cancellation is left behind


async def test_a_silent_backend_ends_the_work() -> None:
    with pytest.raises(SilentBackendError, match=r"0\.05 s"):
        async with Guard(Client().receive) as guard:
            guard.waiting("backend", 0.05)
            await asyncio.sleep(5)


async def test_a_client_that_stops_reading_counts_as_gone() -> None:
    with pytest.raises(ClientLeftError, match="reading"):
        async with Guard(Client().receive) as guard:
            guard.waiting("client", 0.05)
            await asyncio.sleep(5)


async def test_progress_postpones_the_limit() -> None:
    async with Guard(Client().receive) as guard:
        for _ in range(8):
            guard.waiting("backend", 0.06)
            await asyncio.sleep(0.02)


async def test_after_release_a_disconnect_is_nothing() -> None:
    client = Client()
    async with Guard(client.receive) as guard:
        guard.release()
        client.left.set()
        await asyncio.sleep(0.02)


async def test_foreign_cancellation_passes_through() -> None:
    async def work() -> None:
        async with Guard(Client().receive):
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_errors_of_the_work_pass_through() -> None:
    with pytest.raises(ValueError, match="own"):
        async with Guard(Client().receive):
            raise ValueError("own")
