"""SGLang's errors in OpenAI's shape, with the field at fault named where its message tells."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

import orjson

from service.errors import RequestError

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_LOCATION = re.compile(r"'loc': \('body', '([^']+)'")
_MESSAGE = re.compile(r"'msg': (?:'([^']*)'|\"([^\"]*)\")")
_FIRST_WORD = re.compile(r"[`'\"]?([A-Za-z_][A-Za-z0-9_.]*)")
# SGLang's names of sampling parameters -> the request fields that set them.
_FIELDS = {"max_new_tokens": ("max_completion_tokens", "max_tokens"), "sampling_seed": ("seed",)}
_ASKED_TOO_MUCH = "Requested token count"
_TOO_LONG = re.compile(
    r"(?:longer than|exceeds) the model's (?:maximum )?context|KV cache pool size",
    re.I,
)


class UpstreamStatusError(RequestError):
    """The backend answered with an error status, which the client gets in OpenAI's shape."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error["message"], param=error["param"], code=error["code"])
        self.status = status
        self.type = error["type"]


def upstream_error(status: int, raw: bytes, *, fields: Container[str], prompt_field: str) -> UpstreamStatusError:
    """The error for a backend's non-2xx answer.

    A 4xx keeps its status. A backend that refuses the gateway's key or lacks the path is the service's fault
    and not the client's: 502, as every other status below 400.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = raw.decode("utf-8", "replace")[:500] or f"the backend answered with status {status}"
    error = openai_error(body.get("error", body) if isinstance(body, dict) else body, status=status)
    if status in (401, 403, 404, 405) or status < 400:
        error = {
            **error,
            "type": "server_error",
            "message": f"The backend refused the request: {error['message']}",
        }
        return UpstreamStatusError(502, error)
    if status < 500:
        _name_field(error, fields, prompt_field)
    return UpstreamStatusError(status, error)


def openai_error(error: object, *, status: int | None = None) -> dict[str, Any]:
    """An OpenAI error object from any of SGLang's: an ErrorResponse, a nested `error`, or plain text."""
    given = error if isinstance(error, dict) else {"message": str(error)}
    code = given.get("code")
    number = code if isinstance(code, int) else status or 500
    kind = "invalid_request_error" if 400 <= number < 500 else "server_error"
    return {
        "message": str(given.get("message") or "The engine failed without a message."),
        "type": _TYPES.get(number, kind),
        "param": given.get("param"),
        "code": code if isinstance(code, str) else None,
    }


def client_is_at_fault(error: dict[str, Any]) -> bool:
    """Whether an error object blames the request."""
    return error.get("type") != "server_error"


def _name_field(error: dict[str, Any], fields: Container[str], prompt_field: str) -> None:
    message = error["message"]
    if _TOO_LONG.search(message):
        budget = _field("max_new_tokens", fields) if message.startswith(_ASKED_TOO_MUCH) else None
        error["param"] = error["param"] or budget or prompt_field
        error["code"] = "context_length_exceeded"
        return
    location = _LOCATION.search(message)
    if location:
        error["param"] = error["param"] or location[1]
        reason = _MESSAGE.search(message)
        if reason:
            error["message"] = f"`{location[1]}`: {reason[1] or reason[2]}"
        return
    word = _FIRST_WORD.match(message)
    if error["param"] is None and word:
        error["param"] = _field(word[1], fields)


def _field(name: str, fields: Container[str]) -> str | None:
    """The request field behind a name in SGLang's message, None when the request has none such."""
    return next((field for field in _FIELDS.get(name, (name,)) if field in fields), None)
