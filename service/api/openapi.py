"""Documents the plain ASGI routes, which FastAPI cannot see."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.api.middleware.request_id import HEADER as REQUEST_ID_HEADER
from service.api.schemas import ChatCompletionRequest, CompletionRequest, ErrorResponse, GenerateResponse
from service.gateway.extras import METRICS_HEADER, POOL_HEADER
from service.gateway.prepare import PATHS, Kind

ANSWER_HEADERS = (REQUEST_ID_HEADER, POOL_HEADER, "X-Specserve-Overhead-Ms", "X-Specserve-Lossy")
_REF = "#/components/schemas/{model}"
_REQUESTS: dict[Kind, type[BaseModel]] = {"chat": ChatCompletionRequest, "completion": CompletionRequest}
_DOCUMENTED: tuple[type[BaseModel], ...] = (*_REQUESTS.values(), GenerateResponse, ErrorResponse)
_SUMMARIES: dict[Kind, str] = {"chat": "Chat completion", "completion": "Text completion"}
_ERRORS = {
    "400": "a field or header is wrong; `error.param` names it",
    "401": "missing or wrong API key",
    "403": "the API key has no right to the model",
    "404": "unknown model",
    "408": "the body came too slowly",
    "413": "the body is too large",
    "415": "the body is compressed",
    "502": "the backend failed",
    "503": "no backend can be reached",
    "504": "the backend was silent for too long",
}


def install_openapi(app: FastAPI) -> None:
    """Add the generating endpoints to the schema of `app`; it is built at the first use."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = build()
            _, definitions = models_json_schema(
                [(model, "validation") for model in _DOCUMENTED],
                ref_template=_REF,
            )
            schema.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
            _drop_validation_errors(schema)
            schema["paths"].update({path: {"post": _operation(kind)} for kind, path in PATHS.items()})
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _drop_validation_errors(schema: dict[str, Any]) -> None:
    """FastAPI documents its own 422, which `errors.py` turns into an OpenAI-shaped 400. Mutates the schema."""
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)


def _operation(kind: Kind) -> dict[str, Any]:
    answer = {
        "description": "the completion, or its events when `stream` is true",
        "content": {
            "application/json": _schema(GenerateResponse),
            "text/event-stream": {"schema": {"type": "string"}},
        },
        "headers": {name: {"schema": {"type": "string"}} for name in ANSWER_HEADERS},
    }
    return {
        "tags": ["generate"],
        "summary": _SUMMARIES[kind],
        "operationId": kind,
        "parameters": [
            _header(REQUEST_ID_HEADER, "name of the request; made when it is missing"),
            _header(POOL_HEADER, "pool that shall serve the request"),
            _header(METRICS_HEADER, "1: add `metrics.speculative_decoding` to the answer"),
        ],
        "requestBody": {"required": True, "content": {"application/json": _schema(_REQUESTS[kind])}},
        "responses": {
            "200": answer,
            **{
                status: {"description": text, "content": {"application/json": _schema(ErrorResponse)}}
                for status, text in _ERRORS.items()
            },
        },
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
