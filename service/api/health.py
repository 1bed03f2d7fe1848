"""Health, readiness and metrics endpoints. Load balancers ask the first two with HEAD as well."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.deps import GatewayDep
from service.api.schemas import Alive, Readiness
from service.telemetry.exposition import render

health_router = APIRouter(tags=["operations"])
ops_router = APIRouter(tags=["operations"])
metrics_router = APIRouter(tags=["operations"])


@health_router.head("/health", include_in_schema=False)
@health_router.get("/health", summary="The process lives")
async def health() -> Alive:
    """Cheap: looks at no backend."""
    return Alive()


@ops_router.head("/livez", include_in_schema=False)
@ops_router.get("/livez", summary="The process lives")
async def livez() -> Alive:
    """Served by its own thread, so a busy API loop does not fail it."""
    return Alive()


@ops_router.head("/readyz", include_in_schema=False)
@ops_router.get("/readyz", summary="Every model has a healthy backend", responses={503: {"model": Readiness}})
async def readyz(gateway: GatewayDep, response: Response) -> Readiness:
    """503 with reasons while a model has no healthy backend, and while the service drains."""
    reasons = gateway.unready()
    response.status_code = 503 if reasons else 200
    return Readiness(status="unready" if reasons else "ready", reasons=reasons)


@metrics_router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
)
def metrics(request: Request, gateway: GatewayDep) -> Response:
    """OpenMetrics with exemplars for who accepts it, the text format otherwise."""
    body, content_type = render(gateway.metrics.registry, request.headers.get("accept"))
    return Response(body, headers={"content-type": content_type})
