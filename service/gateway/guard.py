"""Ends a request's work when its client leaves or when one side stays silent for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, Literal

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Side = Literal["backend", "client"]

# Well within the second after which nothing may run for a client that left.
_WATCH_AFTER_S = 0.05


class ClientLeftError(Exception):
    """The client closed its connection, or stopped reading; nobody is there to answer."""


class SilentBackendError(Exception):
    """The backend sent nothing for longer than is allowed."""


class Guard:
    """Watches the client while the body of `async with` works, in the task that entered it.

    The work is cancelled when the client disconnects (ClientLeftError comes out), and when a wait that was
    announced with `waiting` takes too long (SilentBackendError, or ClientLeftError for the client's side).
    One timer serves a whole stream: a wait only notes its start. Cancellation from elsewhere passes through.
    The client is watched from a moment later on, so that a quick answer costs no task.
    """

    __slots__ = ("_limit", "_loop", "_owner", "_reason", "_receive", "_side", "_since", "_timer", "_watch")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._reason: Exception | None = None
        self._since: float | None = None
        self._limit = 0.0
        self._side: Side = "backend"
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Guard:
        self._loop = asyncio.get_running_loop()
        owner = asyncio.current_task()
        assert owner is not None
        self._owner = owner
        self._timer = self._loop.call_later(_WATCH_AFTER_S, self._check)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        if self._reason is not None:
            self._owner.uncancel()
            raise self._reason from None

    def watch(self) -> None:
        """Watch the client from now on."""
        if self._watch is None:
            self._watch = self._loop.create_task(self._watch_client())

    def release(self) -> None:
        """Stop watching. Call it before the last byte: servers report a finished request as disconnected."""
        if self._watch is not None:
            self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def waiting(self, side: Side, seconds: float) -> None:
        """From now on this side must do something within `seconds`."""
        self._side, self._limit, self._since = side, seconds, self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._check)

    def rearm(self) -> None:
        """Let a shorter limit count from the next `waiting` on."""
        if self._timer is not None and self._watch is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        self.watch()
        if self._since is None:
            return
        left = self._since + self._limit - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check)
        elif self._side == "backend":
            self._end(SilentBackendError(f"the backend was silent for {self._limit:g} s"))
        else:
            self._end(ClientLeftError("the client stopped reading"))

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._end(ClientLeftError("the client disconnected"))

    def _end(self, reason: Exception) -> None:
        if self._reason is None:
            self._reason = reason
            self._owner.cancel()
