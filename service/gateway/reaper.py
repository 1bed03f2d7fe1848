"""Background work that outlives its request: aborts, and the last figures of aborted requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from service.gateway.exchange import Exchange
from service.gateway.wire import BrokenError, UnreachableError

# An abort that overtakes its request is forgotten by SGLang, so it is repeated.
_REPEAT_S = 0.15
# With several choices SGLang may not know the ids; cutting the connection is then what ends them.
_SEVERAL_GRACE_S = 0.3


class Reaper:
    """Keeps the background tasks; `stop` waits for them, so that a shutdown leaves no orphan upstream."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._tasks: set[asyncio.Task[None]] = set()

    def abort(self, exchange: Exchange) -> None:
        """Cut the exchange and abort it; returns at once."""
        exchange.close()
        self._spawn(self._tell(exchange))

    def abandon(self, exchange: Exchange, drain: Callable[[], Awaitable[None]], ended: Callable[[], None]) -> None:
        """Abort the exchange, read its last figures with `drain` for a short while, cut it, call `ended`."""
        self._spawn(self._abandon(exchange, drain, ended))

    async def stop(self) -> None:
        """Wait for everything that was begun."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, exchange: Exchange) -> None:
        await exchange.abort()

    async def _abandon(
        self, exchange: Exchange, drain: Callable[[], Awaitable[None]], ended: Callable[[], None]
    ) -> None:
        reading = asyncio.create_task(_quietly(drain()))
        loop = asyncio.get_running_loop()
        until = loop.time() + min(self._grace_s, _SEVERAL_GRACE_S if len(exchange.rids) > 1 else self._grace_s)
        try:
            while not reading.done() and loop.time() < until:
                await exchange.abort()
                await asyncio.wait({reading}, timeout=min(_REPEAT_S, max(until - loop.time(), 0)))
            whole = reading.done() and reading.result()
            if not whole:
                exchange.close()
                await exchange.abort()
        finally:
            reading.cancel()
            exchange.close()
            ended()


async def _quietly(drain: Awaitable[None]) -> bool:
    """Whether the answer came to its end. Its failures are what an abort is expected to cause."""
    try:
        await drain
    except (UnreachableError, BrokenError, ValueError):
        return False
    return True
