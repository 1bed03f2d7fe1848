"""Where rates are counted: in this process, or in Redis for several gateways together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from math import floor
from typing import Any, TypeVar

from limits import RateLimitItem
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

# How long a store that did not answer is left alone; then one request tries it.
_AWAY_S = 1.0
_INSTANT_S = 0.001

T = TypeVar("T")


class StoreAwayError(Exception):
    """The store did not answer in time, or refused; nobody knows what it has counted."""


@dataclass(frozen=True, slots=True)
class Window:
    """One tenant's use of one limit: `counted` in the running minute, and `before` in the one that fades.

    `ends_s` is the rest of the running minute, `fades_s` of the one before. Seconds.
    """

    limit: int
    period_s: int
    counted: int
    ends_s: float
    before: int
    fades_s: float

    @property
    def remaining(self) -> int:
        """How much may still be taken now."""
        return max(self.limit - floor(self.before * self.fades_s / self.period_s) - self.counted, 0)

    @property
    def reset_s(self) -> float:
        """Until everything is forgotten, when nothing more is taken."""
        return self.ends_s + self.period_s if self.counted else self.fades_s if self.before else 0.0

    def free_in_s(self, cost: int) -> float:
        """Until `cost` fits, when nothing else is taken; it must be no more than the limit.

        What fades is rounded down, so that it is enough when less than a whole one is too many.
        """
        if cost <= self.remaining:
            return 0.0
        spare = self.limit - cost + 1
        if spare > self.counted:
            return max(self.fades_s - (spare - self.counted) * self.period_s / self.before, 0.0) + _INSTANT_S
        return self.ends_s + max(self.period_s - spare * self.period_s / self.counted, 0.0) + _INSTANT_S


class RateStore:
    """Sliding windows of `limits`, in the memory of this process or, with `url`, in Redis.

    With Redis each call ends within `timeout_s`, by StoreAwayError when Redis is away. Then `away` holds for a second.
    """

    def __init__(self, url: str | None = None, *, timeout_s: float = 1.0) -> None:
        self.shared = url is not None
        self._timeout_s = timeout_s
        self._away_until = 0.0
        self._storage: MemoryStorage | RedisStorage
        if url is None:
            self._storage = MemoryStorage()
        else:
            self._storage = RedisStorage(
                f"async+{url}",
                wrap_exceptions=True,
                implementation="redispy",
                key_prefix="specserve",
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
            )
        self._limiter = SlidingWindowCounterRateLimiter(self._storage)

    @property
    def away(self) -> bool:
        """Whether it did not answer just now, so that asking it would only cost time."""
        return bool(self._away_until) and asyncio.get_running_loop().time() < self._away_until

    def expect(self) -> None:
        """Raise StoreAwayError while it is away; after that one caller may try it before the others."""
        if self.away:
            raise StoreAwayError("it did not answer a moment ago")
        if self._away_until:
            self._away_until = asyncio.get_running_loop().time() + _AWAY_S

    async def take(self, item: RateLimitItem, name: str, cost: int) -> bool:
        """Count `cost`, when it fits; a negative one gives back. Raises StoreAwayError."""
        return await self._bounded(self._limiter.hit(item, name, cost=cost))

    async def window(self, item: RateLimitItem, name: str) -> Window:
        """What is counted. Raises StoreAwayError."""
        period_s = item.get_expiry()
        found = self._storage.get_sliding_window(item.key_for(name), period_s)
        before, fades_s, counted, forgotten_s = await self._bounded(found)
        return Window(item.amount, period_s, counted, max(forgotten_s - period_s, 0.0), before, fades_s)

    async def close(self) -> None:
        """Close the connections."""
        if isinstance(self._storage, RedisStorage):
            await self._storage.bridge.get_connection().aclose()  # type: ignore[attr-defined]

    async def _bounded(self, asked: Coroutine[Any, Any, T]) -> T:
        if not self.shared:
            return await asked
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await asked
        except (TimeoutError, StorageError, OSError) as error:
            self._away_until = asyncio.get_running_loop().time() + _AWAY_S
            raise StoreAwayError(str(error) or type(error).__name__) from error
        self._away_until = 0.0
        return answer
