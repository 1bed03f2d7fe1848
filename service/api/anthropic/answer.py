"""A chat completion, or an error, as Anthropic's Messages API tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def message(chat: dict[str, Any]) -> dict[str, Any]:
    """The whole message. Raises ValueError when `chat` is no chat completion."""
    choices = chat.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
        raise ValueError("the answer is not a chat completion")
    choice = choices[0]
    found = {
        **head(chat),
        "content": list(_blocks(choice["message"])),
        **stop(choice),
        "usage": usage(chat.get("usage")),
    }
    return found | ({"metrics": chat["metrics"]} if "metrics" in chat else {})


def head(chat: dict[str, Any]) -> dict[str, Any]:
    """What every message begins with."""
    return {"id": f"msg_{chat.get('id')}", "type": "message", "role": "assistant", "model": chat.get("model")}


def stop(choice: dict[str, Any]) -> dict[str, Any]:
    """Why the model stopped; SGLang's `matched_stop` is a string only for a stop sequence of the request."""
    reason, matched = choice.get("finish_reason"), choice.get("matched_stop")
    if reason == "stop" and isinstance(matched, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": _REASONS.get(str(reason), "end_turn") if reason else None, "stop_sequence": None}


def usage(given: object) -> dict[str, int | None]:
    """Token counts; Anthropic counts prompt tokens that were cached apart from the others."""
    if not isinstance(given, dict):
        return {"input_tokens": None, "output_tokens": None}
    prompt, details = given.get("prompt_tokens"), given.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    fresh = prompt if prompt is None else prompt - (cached or 0)
    found = {"input_tokens": fresh, "output_tokens": given.get("completion_tokens")}
    return found if cached is None else {**found, "cache_read_input_tokens": cached}


def error_body(status: int, body: bytes, request_id: str | None) -> dict[str, Any]:
    """The error object for an OpenAI-shaped one; an unreadable `body` becomes a general sentence."""
    try:
        text = orjson.loads(body)["error"]["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = "The service failed."
    error = {"type": _ERRORS.get(status, "api_error"), "message": text}
    return {"type": "error", "error": error, "request_id": request_id}


def _blocks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if thought := answer.get("reasoning_content"):
        yield {"type": "thinking", "thinking": thought, "signature": ""}
    if text := answer.get("content"):
        yield {"type": "text", "text": text}
    for call in answer.get("tool_calls") or ():
        yield _call(call)


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments were cut off is told as text: an invented `input` might be run."""
    function = call["function"]
    try:
        arguments = orjson.loads(function.get("arguments") or "{}")
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        return {"type": "text", "text": f"{function['name']}({function['arguments']}"}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}
