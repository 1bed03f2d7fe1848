"""Names every request and catches what nobody else caught."""

from __future__ import annotations

import os
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from service.api.errors import HttpError, send_error
from service.errors import BadRequestError

HEADER = "X-Request-Id"
_NAME = HEADER.lower().encode()
_SANE = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")


class RequestIdMiddleware:
    """Takes `X-Request-Id` or makes one, puts it into `scope["state"]["request_id"]` and into the answer.

    It is the outermost layer, so it also answers an unexpected exception, with the id of its log line.
    """

    def __init__(self, app: ASGIApp, log: FilteringBoundLogger) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _NAME), None)
        sane = given is None or _SANE.fullmatch(given) is not None
        request_id = given.decode() if given is not None and sane else os.urandom(16).hex()
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), (_NAME, request_id.encode())]
            await send(message)

        if not sane:
            text = f"The header `{HEADER}` must be 1 to 128 characters of A-Z a-z 0-9 _ . : -"
            await send_error(send_named, BadRequestError(text, param=HEADER))
            return
        try:
            await self.app(scope, receive, send_named)
        except Exception:
            self.log.exception("unexpected error", request_id=request_id, path=scope["path"])
            if started:
                raise
            await send_error(send_named, HttpError(500, "The service failed; its log has the request id."))
