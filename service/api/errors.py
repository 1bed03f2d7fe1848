"""The one place that turns errors into HTTP answers with an OpenAI error object."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Send

from service.errors import RequestError

# Seconds after which a client may try again: health checks find a restarted engine within that time.
_RETRY_AFTER = {429: "1", 502: "1", 503: "2", 504: "5"}


class HttpError(RequestError):
    """An error that the HTTP layer itself finds: no such path, wrong method, no key."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message, param=param, code=code)
        self.status = status
        if status == 401:
            self.type = "authentication_error"
        elif status >= 500:
            self.type = "server_error"


def error_response(error: RequestError, headers: dict[str, str] | None = None) -> Response:
    """The answer for an error."""
    extra = {**error.headers, **(headers or {})}
    if error.status in _RETRY_AFTER:
        extra.setdefault("Retry-After", _RETRY_AFTER[error.status])
    if error.status == 401:
        extra.setdefault("WWW-Authenticate", "Bearer")
    return Response(orjson.dumps(error.body()), status_code=error.status, headers=extra, media_type="application/json")


async def send_error(send: Send, error: RequestError) -> None:
    """Send an error from middleware, where no response object is called."""
    response = error_response(error)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of the application OpenAI-shaped."""
    app.add_exception_handler(RequestError, _on_request_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)


async def _on_request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path[:200]}"
    message = {
        404: f"Unknown path: {where}.",
        405: f"Method not allowed: {where}.",
    }.get(error.status_code, str(error.detail))
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    return error_response(HttpError(error.status_code, message, code=code), dict(error.headers or {}))


async def _on_validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return error_response(HttpError(400, f"`{param}`: {first['msg']}", param=param))
