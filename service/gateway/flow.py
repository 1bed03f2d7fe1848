"""One request from its first byte to its log line: prepare, choose, admit, open, relay, account."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from service.errors import BackendError, ForbiddenError, RefusedError, RequestError
from service.gateway.admission.tenant import Tenant
from service.gateway.call import Call
from service.gateway.choose import choose_pool
from service.gateway.endpoints import Kind
from service.gateway.guard import ClientLeftError, Guard, Receive, SilentBackendError
from service.gateway.ledger import Ledger
from service.gateway.pools import ServedModel
from service.gateway.prepare import prepare
from service.gateway.reply import Reply, Send
from service.gateway.service import Gateway
from service.gateway.upstream import JSON_TYPE, header_line
from service.gateway.upstream_errors import UpstreamStatusError
from service.gateway.wire import BrokenError
from service.telemetry.metrics import Outcome

# Client headers that the backend gets too. The list is closed: SGLang lets headers override parameters.
_FORWARDED = (b"traceparent", b"tracestate", b"x-data-parallel-rank", b"x-smg-routing-key")


class Flow:
    """Serves one request. `serve` raises RequestError while no answer was begun; the API layer answers it."""

    def __init__(
        self,
        gateway: Gateway,
        kind: Kind,
        *,
        request_id: str,
        headers: Mapping[bytes, bytes],
        tenant: Tenant | None = None,
    ) -> None:
        self._gateway = gateway
        self._kind = kind
        self._headers = headers
        self._request_id = request_id
        self._tenant = tenant
        trace = headers.get(b"traceparent")
        self._ledger = Ledger(
            kind, request_id, gateway.metrics, gateway.log, trace.decode("latin-1") if trace else None
        )
        self._call: Call | None = None

    async def serve(self, receive: Receive, send: Send) -> None:
        """Read the request, answer it and account for it."""
        reply = Reply(send, self._ledger)
        try:
            await self._answer(receive, reply)
        except ClientLeftError as left:
            self._ledger.fail("aborted", str(left))
        except RequestError as error:
            error.headers = {**self._limits(), **error.headers}
            self._ledger.fail(_outcome(error), _loggable(error), error.status)
            raise
        except asyncio.CancelledError:
            self._ledger.fail("aborted", "the service is shutting down")
            raise
        finally:
            self._settle()

    async def _answer(self, receive: Receive, reply: Reply) -> None:
        raw = await _read_body(receive, self._ledger)
        call = self._call = self._plan(raw)
        try:
            async with Guard(receive) as guard:
                if not self._enter(call):
                    await self._wait(call)
                reply.limits = self._limits()
                await call.run(guard, reply, self._upstream_headers())
        except (BrokenError, SilentBackendError) as failure:
            await self._broken(failure, reply)

    def _plan(self, raw: bytes) -> Call:
        gateway, ledger = self._gateway, self._ledger
        prepared = ledger.prepared = prepare(
            raw, self._headers, kind=self._kind, catalog=gateway.catalog, settings=gateway.settings
        )
        if self._tenant is not None:
            ledger.tenant = self._tenant.name
            _permit(self._tenant, prepared.model)
        pool = ledger.pool = choose_pool(prepared.model, prepared.extras)
        return Call(
            prepared,
            pool,
            ledger,
            upstream=gateway.upstream,
            reaper=gateway.reaper,
            settings=gateway.settings,
        )

    def _enter(self, call: Call) -> bool:
        """Take the request's place; false when it must wait for it. What is no work of the model needs none."""
        admission, ledger = self._gateway.admission, self._ledger
        if not call.prepared.endpoint.metered:
            return True
        ledger.place = admission.place(call.prepared, call.pool, self._tenant)
        ledger.leave = admission.leave
        return admission.enter(ledger.place)

    async def _wait(self, call: Call) -> None:
        ledger = self._ledger
        assert ledger.place is not None
        ledger.pause()
        await self._gateway.admission.wait(ledger.place, call.prepared)
        ledger.resume()

    def _limits(self) -> Mapping[str, str]:
        """Headers that tell what is left of the tenant's rates."""
        reserved = self._ledger.place.reserved if self._ledger.place else None
        return reserved.headers if reserved and reserved.headers else {}

    async def _broken(self, failure: Exception, reply: Reply) -> None:
        """The backend failed: an error event inside a stream, an error answer before it."""
        silent = isinstance(failure, SilentBackendError)
        exchange = self._call.exchange if self._call else None
        if exchange is not None and not silent:
            self._gateway.reaper.abort(exchange)
        error = BackendError(
            "The backend sent nothing for too long." if silent else "The backend broke off its answer.",
            status=504 if silent else 502,
            code="backend_timeout" if silent else "backend_broken",
        )
        if not reply.started:
            raise error from failure
        self._ledger.fail("backend_error", str(failure) or type(failure).__name__)
        if not silent:
            self._ledger.close()
        if not reply.finished:
            await reply.end_with_error(error)

    def _upstream_headers(self) -> bytes:
        lines = header_line(b"X-Request-Id", self._request_id.encode())
        for name in _FORWARDED:
            if (value := self._headers.get(name)) is not None:
                lines += header_line(name, value)
        return JSON_TYPE + lines

    def _settle(self) -> None:
        """Account now, or after the abort when the backend still works for nobody."""
        exchange = self._call.exchange if self._call else None
        if self._call is None or exchange is None or exchange.closed:
            self._ledger.close()
        elif exchange.sent:
            self._gateway.reaper.abandon(exchange, self._call.drain, self._ledger.close)
        else:
            exchange.close()
            self._ledger.close()


def _permit(tenant: Tenant, model: ServedModel) -> None:
    if not tenant.may_use(model.name, *model.aliases):
        raise ForbiddenError(
            f"This API key has no right to the model `{model.name}`.", param="model", code="model_not_allowed"
        )


def _outcome(error: RequestError) -> Outcome:
    if isinstance(error, RefusedError):
        return "refused"
    return "client_error" if error.status < 500 else "backend_error"


def _loggable(error: RequestError) -> str:
    """Why a request failed, for the log: SGLang's refusals may quote the prompt, so their text stays out."""
    if isinstance(error, UpstreamStatusError) and error.status < 500:
        return f"the backend refused the request with {error.status}, param {error.param}"
    return error.message


async def _read_body(receive: Receive, ledger: Ledger) -> bytes:
    """The whole request body. Raises ClientLeftError; what bounds it lies around `receive`."""
    ledger.pause()
    parts: list[bytes] = []
    while True:
        message: MutableMapping[str, Any] = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError("the client left while it sent its request")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            ledger.resume()
            return b"".join(parts)
