"""Builds the two applications: the API and the operations port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CollectorRegistry
from starlette.middleware.cors import CORSMiddleware

from service import __version__
from service.api.errors import install_error_handlers
from service.api.health import health_router, metrics_router, ops_router
from service.api.middleware.auth import ApiKeyMiddleware
from service.api.middleware.body import BodyBoundMiddleware
from service.api.middleware.request_id import RequestIdMiddleware
from service.api.models import router as models_router
from service.api.openai import generate_routes
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


def create_app(config: Config, *, registry: CollectorRegistry | None = None) -> FastAPI:
    """The API: `/v1/*`, `/health`, `/metrics`. Its lifespan opens and closes the gateway.

    `registry` takes the metrics; without one the application gets its own. Starts nothing by itself.
    """
    gateway = Gateway(config, registry if registry is not None else CollectorRegistry())
    app = FastAPI(title="specserve", version=__version__, lifespan=_lifespan, telemetry=_NO_TELEMETRY)
    app.state.gateway = gateway
    app.router.routes[:0] = generate_routes(gateway)
    for router in (models_router, health_router, metrics_router):
        app.include_router(router)
    install_error_handlers(app)
    install_openapi(app)
    settings = config.gateway
    app.add_middleware(BodyBoundMiddleware, max_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s)
    if settings.api_key is not None:
        app.add_middleware(ApiKeyMiddleware, key=settings.api_key.get_secret_value())
    if settings.cors_origins:
        _allow_browsers(app, settings.cors_origins)
    app.add_middleware(RequestIdMiddleware, log=gateway.log)
    return app


def _allow_browsers(app: FastAPI, origins: Sequence[str]) -> None:
    """Answer preflights, which carry no key: it must go outside the key check. Mutates `app`."""
    app.add_middleware(
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
