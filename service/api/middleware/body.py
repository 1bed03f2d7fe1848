"""Bounds request bodies in size and in time."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import HttpError, send_error
from service.errors import PayloadTooLargeError


class BodyBoundMiddleware:
    """Refuses a body above `max_bytes` with 413, by its announced length or while it comes in chunks, one that
    takes longer than `timeout_s` with 408, and a compressed one, whose size is not what arrives, with 415.

    What is found while the body is read is raised out of `receive`, so it reaches the application's handlers.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            await send_error(send, self._compressed())
            return
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self.max_bytes:
            await send_error(send, self._too_large())
            return
        await self.app(scope, _Bounded(receive, self), send)

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(
            f"The request body is larger than {self.max_bytes} bytes.", param="body", code="body_too_large"
        )

    def _compressed(self) -> HttpError:
        return HttpError(
            415,
            "Compressed request bodies are not accepted: send the JSON as it is, without `Content-Encoding`.",
            param="Content-Encoding",
            code="unsupported_media_type",
        )

    def _too_slow(self) -> HttpError:
        return HttpError(
            408,
            f"The request body did not arrive within {self.timeout_s:g} s.",
            param="body",
            code="body_timeout",
        )


class _Bounded:
    """`receive` with the bounds; after the last part of the body it passes everything through."""

    def __init__(self, receive: Receive, bounds: BodyBoundMiddleware) -> None:
        self._receive = receive
        self._bounds = bounds
        self._size = 0
        self._complete = False
        self._deadline: float | None = None

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._bounds.timeout_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._bounds._too_slow() from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._size > self._bounds.max_bytes:
                raise self._bounds._too_large()
        return message
