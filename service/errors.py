"""Errors of the service.

SpecserveError
├── ConfigError            settings or a profile that cannot work; carries every reason
├── UnknownNameError       a name that a registry does not hold
├── EngineError            the engine did not start, or died
└── RequestError           becomes an OpenAI-shaped HTTP error
    ├── BadRequestError        400, names the field
    ├── ForbiddenError         403: the key has no right to it
    ├── ModelNotFoundError     404
    ├── PayloadTooLargeError   413
    ├── RefusedError           408, 429 or 503: no place for it now, come again later
    └── BackendError           502, 503 or 504: the engine, not the client, is at fault
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil


class SpecserveError(Exception):
    """Root of every error that the service raises on purpose."""


class ConfigError(SpecserveError):
    """Settings or a profile that cannot work.

    `reasons` holds one sentence per fault, each saying what to do about it.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("; ".join(self.reasons))


class UnknownNameError(SpecserveError):
    """A registry was asked for a name that it does not hold."""


class EngineError(SpecserveError):
    """The engine process did not become ready, or ended by itself."""


class RequestError(SpecserveError):
    """A request that gets an OpenAI error object instead of an answer.

    `param` names the request field at fault, `code` is the machine-readable reason. `headers` go into the answer.
    """

    status = 400
    type = "invalid_request_error"
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, dict[str, str | None]]:
        """The OpenAI error object, ready for JSON."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class BadRequestError(RequestError):
    """400: the client must change the named field."""


class ForbiddenError(RequestError):
    """403: the API key is good, and has no right to this."""

    status = 403
    type = "permission_error"


class ModelNotFoundError(RequestError):
    """404: no configured model has this name or alias."""

    status = 404

    def __init__(self, model: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(
            f"The model `{model}` does not exist; this service has: {names}.",
            param="model",
            code="model_not_found",
        )


class PayloadTooLargeError(RequestError):
    """413: the body is larger than the configured bound."""

    status = 413


class RefusedError(RequestError):
    """The service has no place for the request now; `retry_after_s` seconds from now it may have one."""

    _TYPES = {408: "timeout_error", 429: "rate_limit_error", 503: "server_error"}

    def __init__(self, message: str, *, status: int, code: str, retry_after_s: float) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.type = self._TYPES[status]
        self.headers = {"Retry-After": str(max(ceil(retry_after_s), 1))}


class BackendError(RequestError):
    """502, 503 or 504: the engine failed, is starting, or is too slow."""

    status = 502
    type = "server_error"

    def __init__(self, message: str, *, status: int = 502, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
