"""Steps open and relay of a request: get an answer from a backend and pass it on to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter

from service.errors import BackendError
from service.gateway.backends import Backend
from service.gateway.edit import StreamEditor, Wants, edit_body, read_plain
from service.gateway.exchange import Exchange
from service.gateway.guard import Guard
from service.gateway.ledger import Ledger
from service.gateway.pools import ServedPool
from service.gateway.prepare import Prepared
from service.gateway.reaper import Reaper
from service.gateway.reply import Reply
from service.gateway.tally import Tally
from service.gateway.upstream import Upstream
from service.gateway.upstream_errors import client_is_at_fault, upstream_error
from service.gateway.wire import BrokenError, UnreachableError
from service.settings import GatewaySettings

_MAX_BROKEN = 2
_END_OF_BODY_S = 1.0


class Call:
    """One request at the backends of its pool. `exchange` is the attempt that runs or ran last.

    `tally` and `editor` are that attempt's, and there with the first one.
    """

    tally: Tally
    editor: StreamEditor

    def __init__(
        self,
        prepared: Prepared,
        pool: ServedPool,
        ledger: Ledger,
        *,
        upstream: Upstream,
        reaper: Reaper,
        settings: GatewaySettings,
    ) -> None:
        self.prepared = prepared
        self.pool = pool
        self.ledger = ledger
        self.exchange: Exchange | None = None
        self._upstream = upstream
        self._reaper = reaper
        self._settings = settings
        self._wants = Wants.of(prepared)
        self._lossy = pool.lossy(prepared.extras.mode)

    def _fresh(self) -> None:
        """A new tally for a new attempt: figures of a failed one are not the request's."""
        self.tally = Tally(
            choices=self.prepared.choices,
            batch=self.prepared.batch,
            drafts_per_step=self.pool.drafts_per_step,
        )
        self.editor = StreamEditor(self._wants, self.tally)
        self.ledger.tally = self.tally

    async def run(self, guard: Guard, reply: Reply, headers: bytes) -> None:
        """Serve the request.

        Raises RequestError while nothing was sent to the client, BrokenError when a stream breaks afterwards.
        """
        exchange, first = await self._open(guard, headers)
        if self.prepared.stream:
            await self._relay(exchange, first, guard, reply)
        else:
            exchange.close(reuse=True)
            body = self._edit(first)
            guard.release()
            self.ledger.succeed()
            await reply.whole(body, self.pool.name, self._lossy)

    async def drain(self) -> None:
        """Read the rest of the answer for its figures only; raises when it does not come or is none."""
        assert self.exchange is not None
        if not self.prepared.stream:
            self._read(await self.exchange.read_all())
            return
        while not self.tally.done and (chunk := await self.exchange.read()):
            self.editor.feed(chunk)

    async def _open(self, guard: Guard, headers: bytes) -> tuple[Exchange, bytes]:
        """The first exchange that answers, with the first bytes for the client (without a stream: all)."""
        broken = 0
        error = BackendError(
            f"No backend of pool `{self.pool.name}` can be reached; try again shortly.",
            status=503,
            code="backend_unavailable",
        )
        for backend in self._candidates():
            exchange = self.exchange = Exchange(self.prepared, self.pool, backend, self._upstream)
            self.ledger.backend = backend.url
            self._fresh()
            try:
                return exchange, await self._attempt(exchange, guard, headers)
            except UnreachableError as unreachable:
                self.ledger.reason = str(unreachable)
                backend.mark_down(str(unreachable), away=True)
                exchange.close()
            except BrokenError as failure:
                self.ledger.reason = str(failure)
                error = BackendError("The backend closed the connection before it answered.", code="backend_broken")
                self._reaper.abort(exchange)
                broken += 1
                if broken == _MAX_BROKEN:
                    break
        raise error

    def _candidates(self) -> Iterator[Backend]:
        """Each usable backend once; a broken connection to the only one is worth a second try."""
        order = self.pool.order(self.prepared)
        yield from order
        if len(order) == 1 and order[0].usable:
            yield order[0]

    async def _attempt(self, exchange: Exchange, guard: Guard, headers: bytes) -> bytes:
        self.ledger.pause()
        guard.waiting("backend", self._settings.first_byte_timeout_s)
        status = await exchange.send(headers)
        if status != 200:
            raw = await exchange.read_all()
            exchange.close(reuse=True)
            raise upstream_error(
                status,
                raw,
                fields=self.prepared.body,
                prompt_field=self.prepared.prompt_field,
            )
        if not self.prepared.stream:
            body = await exchange.read_all()
            self.ledger.resume()
            return body
        first = await exchange.read()
        self.ledger.resume()
        if not first:
            raise BrokenError(f"{exchange.backend.url}: the stream ended before its first event")
        self.ledger.first_byte = perf_counter()
        return self.editor.feed(first)

    def _read(self, raw: bytes) -> bytes:
        """The body for the client; its figures go into the tally. Raises ValueError when it is no answer."""
        if self.prepared.endpoint.generates:
            return edit_body(raw, self._wants, self.tally)
        read_plain(raw, self.tally)
        return raw

    def _edit(self, raw: bytes) -> bytes:
        try:
            return self._read(raw)
        except ValueError as error:
            raise BackendError("The backend's answer is not a JSON object.", code="backend_answer") from error

    async def _relay(self, exchange: Exchange, out: bytes, guard: Guard, reply: Reply) -> None:
        idle, tally = self._settings.idle_timeout_s, self.tally
        guard.watch()
        guard.rearm()
        guard.waiting("client", idle)
        await reply.start_stream(self.pool.name, self._lossy)
        while not tally.done:
            if out:
                guard.waiting("client", idle)
                await reply.chunk(out)
            guard.waiting("backend", idle)
            chunk = await exchange.read()
            if not chunk:
                break
            out = self.editor.feed(chunk)
        if not tally.done and tally.error is None:
            raise BrokenError(f"{exchange.backend.url}: the stream ended without [DONE]")
        guard.release()
        self._conclude(tally)
        # The guard is off, so that a client that reads no more would hold the backend's connection for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(idle):
                await reply.end(out if tally.done else b"")
        await self._finish(exchange)

    def _conclude(self, tally: Tally) -> None:
        if tally.error is None:
            self.ledger.succeed()
            return
        # A refusal may quote the prompt, which no log may hold.
        if client_is_at_fault(tally.error):
            self.ledger.fail("client_error", "the backend refused the request inside the stream")
        else:
            self.ledger.fail("backend_error", str(tally.error["message"]))
        self.ledger.close()

    async def _finish(self, exchange: Exchange) -> None:
        """Take the end of the body, so that the connection can be used again."""
        try:
            if not exchange.ended:
                async with asyncio.timeout(_END_OF_BODY_S):
                    while await exchange.read():
                        pass
        except (TimeoutError, BrokenError):
            exchange.close()
        else:
            exchange.close(reuse=True)
