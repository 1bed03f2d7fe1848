"""Builds the two applications: the API and the operations port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service import __version__
from service.api.anthropic.endpoint import messages_endpoints
from service.api.errors import install_error_handlers
from service.api.health import health_router, metrics_router, ops_router
from service.api.middleware.auth import ApiKeyMiddleware
from service.api.middleware.body import BodyBoundMiddleware
from service.api.middleware.request_id import RequestIdMiddleware
from service.api.models import router as models_router
from service.api.openai import backend_endpoints, routes
from service.api.openapi import ANSWER_HEADERS, install_openapi
from service.gateway.service import Gateway
from service.profiles.config import Config

# FastAPI would trace every request once an OpenTelemetry provider is set.
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


class Application(FastAPI):
    """FastAPI with the endpoints of backends in front: their requests pass our own layers and nothing else.

    The routes of these endpoints stay registered, so that a wrong method is answered as everywhere.
    """

    fronted: dict[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self.fronted.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def create_app(config: Config, *, registry: CollectorRegistry | None = None) -> FastAPI:
    """The API: `/v1/*`, `/health`, `/metrics`. Its lifespan opens and closes the gateway.

    `registry` takes the metrics; without one the application gets its own. Starts nothing by itself.
    """
    gateway = Gateway(config, registry if registry is not None else CollectorRegistry())
    layers = _layers(gateway)
    app = Application(
        title="specserve", version=__version__, lifespan=_lifespan, telemetry=_NO_TELEMETRY, middleware=layers
    )
    app.state.gateway = gateway
    backend = backend_endpoints(gateway)
    app.fronted = {path: _wrapped(endpoint, layers) for path, endpoint in backend.items()}
    app.fronted |= messages_endpoints(backend, lambda endpoint: _wrapped(endpoint, layers))
    app.router.routes[:0] = routes(app.fronted)
    for router in (models_router, health_router, metrics_router):
        app.include_router(router)
    install_error_handlers(app)
    install_openapi(app)
    return app


def _layers(gateway: Gateway) -> list[Middleware]:
    """What every request passes, the outermost first."""
    settings = gateway.settings
    layers = [Middleware(RequestIdMiddleware, log=gateway.log)]
    if settings.cors_origins:
        layers.append(_browsers(settings.cors_origins))
    if gateway.keyring is not None:
        layers.append(Middleware(ApiKeyMiddleware, keyring=gateway.keyring))
    bounds = Middleware(BodyBoundMiddleware, max_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s)
    return [*layers, bounds]


def _wrapped(app: ASGIApp, layers: Sequence[Middleware]) -> ASGIApp:
    for layer in reversed(layers):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    return app


def _browsers(origins: Sequence[str]) -> Middleware:
    """Answers preflights, which carry no key: it must go outside the key check."""
    return Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=(*ANSWER_HEADERS, "Retry-After"),
    )


def create_ops_app(gateway: Gateway) -> FastAPI:
    """The operations port: `/livez`, `/readyz`, `/metrics` of the same gateway; any thread may run it."""
    app = FastAPI(title="specserve operations", version=__version__, telemetry=_NO_TELEMETRY)
    app.state.gateway = gateway
    for router in (ops_router, metrics_router):
        app.include_router(router)
    install_error_handlers(app)
    app.add_middleware(RequestIdMiddleware, log=gateway.log)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    gateway: Gateway = app.state.gateway
    await gateway.start()
    try:
        yield
    finally:
        await gateway.stop()
