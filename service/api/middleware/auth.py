"""Bearer-key check."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import HttpError, send_error


class ApiKeyMiddleware:
    """Asks for `Authorization: Bearer <key>` under `prefix`; health, metrics and documentation stay open."""

    def __init__(self, app: ASGIApp, key: str, prefix: str = "/v1/") -> None:
        self.app = app
        self.prefix = prefix
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self.prefix) or self._allows(scope):
            await self.app(scope, receive, send)
            return
        error = HttpError(
            401,
            "Missing or wrong API key: send `Authorization: Bearer <key>`.",
            param="Authorization",
            code="invalid_api_key",
        )
        await send_error(send, error)

    def _allows(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(key.strip(), self._key)
