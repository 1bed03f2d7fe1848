"""The OpenAI endpoints that generate: plain ASGI, because each token of each stream passes here."""

from __future__ import annotations

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import send_error
from service.errors import RequestError
from service.gateway.flow import Flow
from service.gateway.prepare import PATHS, Kind
from service.gateway.service import Gateway


class GenerateEndpoint:
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


def generate_endpoints(gateway: Gateway) -> dict[str, ASGIApp]:
    """Both endpoints by their paths."""
    return {path: GenerateEndpoint(gateway, kind) for kind, path in PATHS.items()}


def generate_routes(gateway: Gateway) -> list[Route]:
    """Routes of both endpoints, for what asks FastAPI about them; `openapi.py` documents them."""
    kinds = {path: kind for kind, path in PATHS.items()}
    return [
        Route(path, endpoint, methods=["POST"], name=kinds[path])
        for path, endpoint in generate_endpoints(gateway).items()
    ]
