"""The OpenAI endpoints that generate: plain ASGI, because each token of each stream passes here."""

from __future__ import annotations

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.gateway.flow import Flow
from service.gateway.prepare import PATHS, Kind
from service.gateway.service import Gateway


class GenerateEndpoint:
    """An ASGI application for one endpoint."""

    def __init__(self, gateway: Gateway, kind: Kind) -> None:
        self._gateway = gateway
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        flow = Flow(
            self._gateway,
            self._kind,
            request_id=scope["state"]["request_id"],
            headers=dict(scope["headers"]),
        )
        await flow.serve(receive, send)


def generate_routes(gateway: Gateway) -> list[Route]:
    """The routes of both endpoints; `openapi.py` documents them."""
    return [Route(path, GenerateEndpoint(gateway, kind), methods=["POST"], name=kind) for kind, path in PATHS.items()]
