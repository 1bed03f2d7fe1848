"""`GET /v1/models` and `GET /v1/models/{id}`."""

from __future__ import annotations

from fastapi import APIRouter, Request

from service.api.deps import GatewayDep
from service.api.schemas import ErrorResponse, ModelCard, ModelList
from service.gateway.pools import ServedModel
from service.gateway.service import Gateway

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("", summary="List the served models")
async def list_models(gateway: GatewayDep, request: Request) -> ModelList:
    """Every configured model that the key may use, from the configuration: it answers before an engine is ready."""
    return ModelList(data=[_card(gateway, model) for model in gateway.catalog.models if _visible(request, model)])


@router.get("/{model_id:path}", summary="One served model, by name or alias", responses={404: {"model": ErrorResponse}})
async def get_model(model_id: str, gateway: GatewayDep) -> ModelCard:
    """404 with an OpenAI error object for an unknown name."""
    return _card(gateway, gateway.catalog.resolve(model_id))


def _card(gateway: Gateway, model: ServedModel) -> ModelCard:
    return ModelCard(
        id=model.name,
        created=gateway.started_at,
        aliases=list(model.aliases),
        pools=[pool.name for pool in model.pools],
    )


def _visible(request: Request, model: ServedModel) -> bool:
    tenant = getattr(request.state, "tenant", None)
    return tenant is None or tenant.may_use(model.name, *model.aliases)
