"""A request of Anthropic's Messages API as a chat completion.

Written after https://docs.anthropic.com/en/api/messages; what no engine here can do is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.api.anthropic.blocks import assistant_message, joined_text, string, user_messages, wrong
from service.errors import BadRequestError

IGNORED_HEADER = "X-Specserve-Ignored"
_OWN = frozenset(
    (
        *("max_tokens", "messages", "metadata", "output_config", "stop_sequences", "stream"),
        *("system", "thinking", "tool_choice", "tools"),
    )
)
_NO_EFFECT = (
    *("cache_control", "diagnostics", "inference_geo", "service_tier"),
    *("speed", "user_profile_id", "workspace_id"),
)
"""What only Anthropic's own service does; the prefix cache here needs no marks."""
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def to_chat(body: dict[str, Any], *, counted: bool = False) -> dict[str, Any]:
    """The chat completion that asks the same. `counted`: only the prompt matters, so `max_tokens` may be missing.

    Fields of neither API pass through, as they do in chat completions. Raises BadRequestError, naming the field.
    """
    if body.get("container") is not None:
        raise wrong("container", "is not offered here: leave it out")
    chat = {key: value for key, value in body.items() if key not in _OWN and key not in _NO_EFFECT}
    chat["messages"] = list(_messages(body))
    if body.get("max_tokens") is not None or not counted:
        chat["max_tokens"] = _max_tokens(body)
    if (stops := body.get("stop_sequences")) is not None:
        chat["stop"] = stops
    if (stream := body.get("stream")) is not None:
        chat["stream"] = stream
    if stream is True:
        # `message_start` tells the prompt's tokens, before the end of the answer.
        chat["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if (user := _metadata(body)) is not None:
        chat["user"] = user
    chat |= _tools(body) | _thinking(body) | _output(body)
    return chat


def ignored(body: dict[str, Any]) -> str | None:
    """Fields that were accepted without effect, for a header; None when there are none."""
    names = [name for name in _NO_EFFECT if body.get(name) is not None]
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        names += [f"thinking.{key}" for key in ("budget_tokens", "display") if thinking.get(key) is not None]
    return ", ".join(names) or None


def _messages(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if body.get("system"):
        yield {"role": "system", "content": joined_text(body["system"], "system")}
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", "must hold at least one message")
    for index, message in enumerate(messages):
        field = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            yield from user_messages(message.get("content"), f"{field}.content")
        elif role == "assistant":
            yield assistant_message(message.get("content"), f"{field}.content")
        elif role == "system":
            yield {"role": "system", "content": joined_text(message.get("content"), f"{field}.content")}
        else:
            raise wrong(f"{field}.role", "must be user, assistant or system")


def _max_tokens(body: dict[str, Any]) -> int:
    most = body.get("max_tokens")
    if most is None:
        raise BadRequestError("`max_tokens` is missing.", param="max_tokens", code="missing_required_parameter")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise wrong("max_tokens", "must be an integer above 0")
    return most


def _metadata(body: dict[str, Any]) -> str | None:
    """Who asks; requests of one user go to one backend where the routing policy keeps sessions together."""
    metadata = body.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise wrong("metadata", "must be an object")
    user = metadata.get("user_id")
    if user is not None and not isinstance(user, str):
        raise wrong("metadata.user_id", "must be a string")
    return user


def _tools(body: dict[str, Any]) -> dict[str, Any]:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools is not None and not isinstance(tools, list):
        raise wrong("tools", "must be a list")
    found: dict[str, Any] = {"tools": [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools or ())]}
    if choice is not None:
        found |= _choice(choice)
    return {key: value for key, value in found.items() if value != []}


def _tool(tool: object, field: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise wrong(field, "must be an object")
    kind = tool.get("type")
    if kind not in (None, "custom"):
        raise wrong(f"{field}.type", "must be custom: tools that run at Anthropic are not here")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise wrong(f"{field}.input_schema", "must be a JSON schema")
    function = {"name": string(tool, "name", field), "parameters": {"type": "object", **schema}}
    for key in ("description", "strict"):
        if tool.get(key) is not None:
            function[key] = tool[key]
    return {"type": "function", "function": function}


def _choice(choice: object) -> dict[str, Any]:
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(kind, str) or kind not in (*_CHOICES, "tool"):
        raise wrong("tool_choice.type", "must be auto, any, tool or none")
    if kind == "tool":
        named = {"type": "function", "function": {"name": string(choice, "name", "tool_choice")}}
        found: dict[str, Any] = {"tool_choice": named}
    else:
        found = {"tool_choice": _CHOICES[kind]}
    if choice.get("disable_parallel_tool_use"):
        found["parallel_tool_calls"] = False
    return found


def _thinking(body: dict[str, Any]) -> dict[str, Any]:
    """Templates of reasoning models know one of two names for the switch."""
    thinking = body.get("thinking")
    if thinking is None:
        return {}
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "disabled", "adaptive"):
        raise wrong("thinking.type", "must be enabled, disabled or adaptive")
    given = body.get("chat_template_kwargs")
    if given is not None and not isinstance(given, dict):
        raise wrong("chat_template_kwargs", "must be an object")
    on = kind != "disabled"
    return {"chat_template_kwargs": {"enable_thinking": on, "thinking": on, **(given or {})}}


def _output(body: dict[str, Any]) -> dict[str, Any]:
    config = body.get("output_config")
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise wrong("output_config", "must be an object")
    found: dict[str, Any] = {}
    if (effort := config.get("effort")) is not None:
        found["reasoning_effort"] = "max" if effort == "xhigh" else effort
    if (form := config.get("format")) is not None:
        if not isinstance(form, dict) or form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            raise wrong("output_config.format", "must be a json_schema with a `schema`")
        schema = {"name": "answer", "schema": form["schema"], "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    return found
