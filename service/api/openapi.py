"""Documents the plain ASGI routes, which FastAPI cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.api import endpoint_schemas as more
from service.api.anthropic.endpoint import COUNT_PATH, PATH
from service.api.anthropic.request import IGNORED_HEADER
from service.api.middleware.request_id import HEADER as REQUEST_ID_HEADER
from service.api.schemas import ChatCompletionRequest, CompletionRequest, ErrorResponse, GenerateResponse
from service.gateway.admission.rates import UNITS
from service.gateway.endpoints import ENDPOINTS, Kind
from service.gateway.extras import METRICS_HEADER, POOL_HEADER

RATE_HEADERS = tuple(f"x-ratelimit-{what}-{unit}" for unit in UNITS for what in ("limit", "remaining", "reset"))
ANSWER_HEADERS = (REQUEST_ID_HEADER, POOL_HEADER, "X-Specserve-Overhead-Ms", "X-Specserve-Lossy", *RATE_HEADERS)
_REF = "#/components/schemas/{model}"
_ERRORS = {
    "400": "a field or header is wrong; `error.param` names it",
    "401": "missing or wrong API key",
    "403": "the API key has no right to the model",
    "404": "unknown model",
    "408": "the body came too slowly, or no place became free in time",
    "413": "the body is too large",
    "415": "the body is compressed",
    "429": "too many requests wait, or the API key has too many open, or its rate is used up",
    "502": "the backend failed",
    "503": "no backend can be reached, or the place in the queue went to another request",
    "504": "the backend was silent for too long",
}


@dataclass(frozen=True, slots=True)
class _Documented:
    """One route. Without `answer` the backend's JSON passes through; `streams`: it has events, too."""

    name: str
    summary: str
    request: type[BaseModel]
    answer: type[BaseModel] | None = None
    error: type[BaseModel] = ErrorResponse
    streams: bool = False
    headers: tuple[str, ...] = ANSWER_HEADERS


_REQUESTS: dict[Kind, type[BaseModel]] = {
    "chat": ChatCompletionRequest,
    "completion": CompletionRequest,
    "embedding": more.EmbeddingRequest,
    "rerank": more.RerankRequest,
    "score": more.ScoreRequest,
    "classify": more.ClassifyRequest,
    "tokenize": more.TokenizeRequest,
    "detokenize": more.DetokenizeRequest,
}


def _routes() -> Mapping[str, _Documented]:
    found = {
        endpoint.path: _Documented(
            kind,
            endpoint.summary,
            _REQUESTS[kind],
            GenerateResponse if endpoint.generates else None,
            streams=endpoint.generates,
        )
        for kind, endpoint in ENDPOINTS.items()
    }
    errors = more.MessagesErrorResponse
    headers = (*ANSWER_HEADERS, IGNORED_HEADER)
    message, count = (more.MessagesRequest, more.MessageResponse), (more.CountTokensRequest, more.TokenCount)
    found[PATH] = _Documented("messages", "Message, Anthropic's API", *message, errors, True, headers)
    found[COUNT_PATH] = _Documented("count_tokens", "Tokens of a message's prompt, Anthropic's API", *count, errors)
    return found


def install_openapi(app: FastAPI) -> None:
    """Add the endpoints of backends to the schema of `app`; it is built at the first use."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema, routes = build(), _routes()
            _, definitions = models_json_schema([(model, "validation") for model in _models(routes)], ref_template=_REF)
            schema.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
            _drop_validation_errors(schema)
            schema["paths"].update({path: {"post": _operation(route)} for path, route in routes.items()})
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _models(routes: Mapping[str, _Documented]) -> list[type[BaseModel]]:
    every = [model for route in routes.values() for model in (route.request, route.answer, route.error) if model]
    return list(dict.fromkeys(every))


def _drop_validation_errors(schema: dict[str, Any]) -> None:
    """FastAPI documents its own 422, which `errors.py` turns into an OpenAI-shaped 400. Mutates the schema."""
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)


def _operation(route: _Documented) -> dict[str, Any]:
    content = {"application/json": _schema(route.answer) if route.answer else {"schema": {}}}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    parameters = [
        _header(REQUEST_ID_HEADER, "name of the request; made when it is missing"),
        _header(POOL_HEADER, "pool that shall serve the request"),
    ]
    if route.streams:
        parameters.append(_header(METRICS_HEADER, "1: add `metrics.speculative_decoding` to the answer"))
    answer = {
        "description": "the answer, or its events when `stream` is true" if route.streams else "the answer",
        "content": content,
        "headers": {name: {"schema": {"type": "string"}} for name in route.headers},
    }
    failed = {"content": {"application/json": _schema(route.error)}}
    return {
        "tags": ["generate" if route.streams else "other"],
        "summary": route.summary,
        "operationId": route.name,
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": _schema(route.request)}},
        "responses": {"200": answer, **{status: {"description": text, **failed} for status, text in _ERRORS.items()}},
    }


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"schema": {"$ref": _REF.format(model=model.__name__)}}


def _header(name: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": text,
        "schema": {"type": "string"},
    }
