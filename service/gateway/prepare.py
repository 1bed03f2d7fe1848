"""First step of a request: parse the body once and check the fields that the gateway itself reads.

Every other field passes through as it is, so whatever SGLang accepts works here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from service.errors import BadRequestError
from service.gateway.endpoints import ENDPOINTS, Endpoint, Kind
from service.gateway.extras import Extras, take_extras
from service.gateway.pools import Catalog, ServedModel
from service.settings import GatewaySettings

_RAW_PATHS: dict[Kind, bytes] = {kind: endpoint.path.encode() for kind, endpoint in ENDPOINTS.items()}

# Request flag -> the key of `sglext` that it asks for.
SGLEXT_FLAGS = {
    "return_spec_tokens_details": "spec_tokens_details",
    "return_cached_tokens_details": "cached_tokens_details",
    "return_routed_experts": "routed_experts",
    "return_input_ids_in_sglext": "input_ids",
    "return_output_ids_in_sglext": "output_ids",
}

SESSION_HEADERS = (b"x-session-id", b"x-smg-routing-key")
SESSION_FIELDS = ("prompt_cache_key", "user")
_BEGINNING = 16 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked request. `body` still lacks what differs per attempt; `encode` adds it.

    `choices` counts those of all prompts; `batch` tells that SGLang sees a list of prompts, if only of one.
    """

    kind: Kind
    body: dict[str, Any]
    model: ServedModel
    extras: Extras
    stream: bool
    choices: int
    prompts: int
    batch: bool
    wants_usage: bool
    wants_sglext: frozenset[str]
    session: str | None

    @property
    def path(self) -> bytes:
        return _RAW_PATHS[self.kind]

    @property
    def endpoint(self) -> Endpoint:
        return ENDPOINTS[self.kind]

    @property
    def prompt_field(self) -> str:
        """The field that the engine reads; requests have it."""
        return next(name for name in self.endpoint.reads if self.body.get(name) is not None)

    def beginning(self) -> bytes:
        """The first 16 KiB of what the engine will read, as JSON; see `routing.Routed`. Raises as `encode` does."""
        tools = _encoded(self.body["tools"]) if self.body.get("tools") else b""
        return (tools + _encoded(self.body[self.prompt_field]))[:_BEGINNING]

    def encode(self, rid: str) -> bytes:
        """The body for one upstream attempt. Raises BadRequestError when it is nested too deeply."""
        return _encoded({**self.body, "rid": rid} if self.endpoint.abortable else self.body)


def prepare(
    raw: bytes, headers: Mapping[bytes, bytes], *, kind: Kind, catalog: Catalog, settings: GatewaySettings
) -> Prepared:
    """Parse and check. Raises BadRequestError or ModelNotFoundError, naming the field at fault."""
    body = _object(raw)
    model = catalog.resolve(_model_name(body))
    extras = take_extras(body, headers)
    if body.get("rid") is not None:
        raise BadRequestError(
            "`rid` is chosen by the gateway; send the header `X-Request-Id` to name a request.",
            param="rid",
            code="unsupported_parameter",
        )
    if not ENDPOINTS[kind].generates:
        return _plain(body, headers, kind, model, extras)
    stream = _typed(body, "stream", bool, "a boolean") or False
    choices = _choices(body, settings.max_choices)
    prompts, batch = _messages(body) if kind == "chat" else _prompts(body, settings.max_prompts)
    wants_usage = _stream_options(body, stream)
    wants_sglext = frozenset(key for flag, key in SGLEXT_FLAGS.items() if body.get(flag))
    body["model"] = model.name
    body["return_spec_tokens_details"] = True
    custom = _typed(body, "custom_params", dict, "an object") or {}
    body["custom_params"] = {**custom, "specserve": {"mode": extras.mode}}
    return Prepared(
        kind=kind,
        body=body,
        model=model,
        extras=extras,
        stream=stream,
        choices=choices * prompts,
        prompts=prompts,
        batch=batch,
        wants_usage=wants_usage,
        wants_sglext=wants_sglext,
        session=_session(body, headers),
    )


def _plain(
    body: dict[str, Any], headers: Mapping[bytes, bytes], kind: Kind, model: ServedModel, extras: Extras
) -> Prepared:
    """A request that generates nothing: the backend checks its fields, and nothing speculates."""
    if extras.mode != "auto":
        text = f"`{ENDPOINTS[kind].path}` generates nothing, so nothing speculates: leave `speculation.mode` out."
        raise BadRequestError(text, param="speculation.mode", code="unsupported_parameter")
    if body.get("stream"):
        text = f"`{ENDPOINTS[kind].path}` answers in one piece: leave `stream` out."
        raise BadRequestError(text, param="stream", code="unsupported_parameter")
    reads = ENDPOINTS[kind].reads
    if all(body.get(name) is None for name in reads):
        text = f"`{'` or `'.join(reads)}` is missing."
        raise BadRequestError(text, param=reads[0], code="missing_required_parameter")
    body["model"] = model.name
    return Prepared(
        kind=kind,
        body=body,
        model=model,
        extras=replace(extras, metrics=False),
        stream=False,
        choices=1,
        prompts=1,
        batch=False,
        wants_usage=True,
        wants_sglext=frozenset(),
        session=_session(body, headers),
    )


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise BadRequestError(f"The request body cannot be sent on: {error}.", param="body") from error


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(
            f"The request body is not valid JSON: {error}.", param="body", code="invalid_json"
        ) from error
    if not isinstance(body, dict):
        raise BadRequestError("The request body must be a JSON object.", param="body", code="invalid_json")
    return body


def _session(body: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str | None:
    """What names the requests that belong together, the most explicit first; None when nothing does."""
    for name in SESSION_HEADERS:
        if value := headers.get(name):
            return value.decode("latin-1")
    named = (body.get(name) for name in SESSION_FIELDS)
    return next((value for value in named if isinstance(value, str) and value), None)


def _model_name(body: dict[str, Any]) -> str:
    name = _typed(body, "model", str, "a string")
    if not name:
        raise BadRequestError("`model` is missing.", param="model", code="missing_required_parameter")
    return name


def _typed(body: dict[str, Any], name: str, kind: type[T], words: str) -> T | None:
    value = body.get(name)
    if value is not None and not isinstance(value, kind):
        raise BadRequestError(f"`{name}` must be {words}.", param=name, code="invalid_type")
    return value


def _choices(body: dict[str, Any], most: int) -> int:
    n = _typed(body, "n", int, "an integer")
    if n is None:
        return 1
    if isinstance(n, bool):
        raise BadRequestError("`n` must be an integer.", param="n", code="invalid_type")
    if not 1 <= n <= most:
        raise BadRequestError(f"`n` must be between 1 and {most}.", param="n", code="invalid_value")
    return n


def _messages(body: dict[str, Any]) -> tuple[int, bool]:
    messages = _typed(body, "messages", list, "a list of messages")
    if not messages:
        raise BadRequestError(
            "`messages` must hold at least one message.", param="messages", code="missing_required_parameter"
        )
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequestError(
                f"`messages[{index}]` must be an object with a `role`.",
                param=f"messages[{index}]",
                code="invalid_type",
            )
    return 1, False


def _prompts(body: dict[str, Any], most: int) -> tuple[int, bool]:
    """Number of prompts, and whether SGLang sees a batch (a list of strings or of token lists)."""
    prompt = body.get("prompt")
    if prompt is None or prompt == []:
        raise BadRequestError("`prompt` is missing.", param="prompt", code="missing_required_parameter")
    if isinstance(prompt, str):
        return 1, False
    if not isinstance(prompt, list) or not isinstance(prompt[0], str | int | list):
        raise BadRequestError(
            "`prompt` must be a string, a list of strings, a list of token ids or a list of such lists.",
            param="prompt",
            code="invalid_type",
        )
    kind = type(prompt[0])
    if any(type(item) is not kind for item in prompt) or kind is bool:
        raise BadRequestError("`prompt` mixes types.", param="prompt", code="invalid_type")
    if kind is int:
        return 1, False
    if len(prompt) > most:
        raise BadRequestError(f"`prompt` may hold at most {most} prompts.", param="prompt", code="invalid_value")
    return len(prompt), True


def _stream_options(body: dict[str, Any], stream: bool) -> bool:
    """Whether the client asked for usage; the upstream is always asked."""
    options = _typed(body, "stream_options", dict, "an object") or {}
    asked = options.get("include_usage")
    if asked is not None and not isinstance(asked, bool):
        raise BadRequestError(
            "`stream_options.include_usage` must be a boolean.",
            param="stream_options.include_usage",
            code="invalid_type",
        )
    if stream:
        body["stream_options"] = {**options, "include_usage": True}
    return bool(asked)
