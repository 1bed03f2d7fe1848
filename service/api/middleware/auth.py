"""Bearer-key check."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import HttpError, send_error
from service.gateway.admission.keyring import Keyring
from service.gateway.admission.tenant import Tenant


class ApiKeyMiddleware:
    """Asks for `Authorization: Bearer <key>` under `prefix`; health, metrics and documentation stay open.

    The key's tenant goes into `scope["state"]["tenant"]`.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring, prefix: str = "/v1/") -> None:
        self.app = app
        self.prefix = prefix
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self.prefix):
            await self.app(scope, receive, send)
            return
        tenant = self._tenant(scope)
        if tenant is not None:
            scope.setdefault("state", {})["tenant"] = tenant
            await self.app(scope, receive, send)
            return
        error = HttpError(
            401,
            "Missing or wrong API key: send `Authorization: Bearer <key>`.",
            param="Authorization",
            code="invalid_api_key",
        )
        await send_error(send, error)

    def _tenant(self, scope: Scope) -> Tenant | None:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = given.partition(b" ")
        return self._keyring.tenant(key.strip()) if scheme.lower() == b"bearer" else None
