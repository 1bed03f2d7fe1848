"""The endpoints that a backend answers: plain ASGI, because each token of each stream passes here."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import send_error
from service.errors import RequestError
from service.gateway.endpoints import ENDPOINTS, Kind
from service.gateway.flow import Flow
from service.gateway.service import Gateway


class BackendEndpoint:
    """An ASGI application for one endpoint, which answers its own errors: nothing of FastAPI lies around it."""

    def __init__(self, gateway: Gateway, kind: Kind) -> None:
        self._gateway = gateway
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        flow = Flow(
            self._gateway,
            self._kind,
            request_id=scope["state"]["request_id"],
            headers=dict(scope["headers"]),
            tenant=scope["state"].get("tenant"),
        )
        try:
            await flow.serve(receive, send)
        except RequestError as error:
            await send_error(send, error)


def backend_endpoints(gateway: Gateway) -> dict[str, ASGIApp]:
    """Every endpoint by its path."""
    return {endpoint.path: BackendEndpoint(gateway, kind) for kind, endpoint in ENDPOINTS.items()}


def routes(endpoints: Mapping[str, ASGIApp]) -> list[Route]:
    """Routes of these endpoints, for what asks FastAPI about them; `openapi.py` documents them."""
    return [Route(path, endpoint, methods=["POST"], name=path) for path, endpoint in endpoints.items()]
