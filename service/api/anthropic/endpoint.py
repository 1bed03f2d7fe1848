"""`/v1/messages` as two layers around the chat endpoint: its request on the way in, its answer on the way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.anthropic.answer import error_body, message
from service.api.anthropic.request import IGNORED_HEADER, ignored, to_chat
from service.api.anthropic.stream import MessageStream
from service.api.errors import HttpError, send_error
from service.errors import BadRequestError, RequestError
from service.gateway.endpoints import ENDPOINTS

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"


class MessagesRequest:
    """Inner layer: reads a Messages request and passes it on as what `app` reads.

    `counted` asks for the prompt alone. Errors are answered OpenAI-shaped; the outer layer translates them too.
    """

    def __init__(self, app: ASGIApp, *, counted: bool = False) -> None:
        self.app = app
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            raw = await _body(receive)
            if raw is None:
                return
            asked = _object(raw)
            translated = orjson.dumps(to_chat(asked, counted=self._counted))
        except RequestError as error:
            await send_error(send, error)
            return
        first: list[Message] = [{"type": "http.request", "body": translated, "more_body": False}]

        async def receive_translated() -> Message:
            return first.pop() if first else await receive()

        await self.app(scope, receive_translated, _naming(send, ignored(asked)))


class MessagesAnswer:
    """Outer layer: takes `x-api-key` for a bearer key and translates every answer, errors of other layers included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "headers": _with_bearer(scope["headers"])}, receive, _Translator(send))


def messages_endpoints(backend: Mapping[str, ASGIApp], wrapped: Callable[[ASGIApp], ASGIApp]) -> dict[str, ASGIApp]:
    """The endpoints of the Messages API by path; `wrapped` puts the layers of every request around one."""
    chat, tokenize = backend[ENDPOINTS["chat"].path], backend[ENDPOINTS["tokenize"].path]
    inner = {PATH: MessagesRequest(chat), COUNT_PATH: MessagesRequest(tokenize, counted=True)}
    return {path: MessagesAnswer(wrapped(app)) for path, app in inner.items()}


class _Translator:
    """`send` that takes an OpenAI-shaped answer and sends Anthropic's."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._stream: MessageStream | None = None
        self._parts: list[bytes] = []
        self._request_id: str | None = None

    async def __call__(self, event: Message) -> None:
        if event["type"] == "http.response.start":
            await self._begin(event)
        elif self._stream is not None:
            await self._send({**event, "body": self._stream.feed(event.get("body", b""))})
        else:
            self._parts.append(event.get("body", b""))
            if not event.get("more_body", False):
                await self._whole()

    async def _begin(self, event: Message) -> None:
        headers = MutableHeaders(raw=list(event["headers"]))
        self._request_id = headers.get("x-request-id")
        if self._request_id is not None:
            headers["request-id"] = self._request_id
        self._start = {**event, "headers": headers.raw}
        if headers.get("content-type", "").startswith("text/event-stream"):
            self._stream = MessageStream(self._request_id)
            await self._send(self._start)

    async def _whole(self) -> None:
        status, body = self._translated(self._start["status"], b"".join(self._parts))
        headers = MutableHeaders(raw=self._start["headers"])
        headers["content-length"] = str(len(body))
        headers["content-type"] = "application/json"
        await self._send({**self._start, "status": status, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})

    def _translated(self, status: int, raw: bytes) -> tuple[int, bytes]:
        try:
            if status == 200:
                return 200, orjson.dumps(_found(orjson.loads(raw)))
        except ValueError:
            status = 502
            raw = orjson.dumps(HttpError(502, "The backend's answer is not a chat completion.").body())
        return status, orjson.dumps(error_body(status, raw, self._request_id))


def _found(answer: dict[str, Any]) -> dict[str, Any]:
    """A message, or the count of tokens where the backend only counted."""
    if "choices" not in answer and isinstance(answer.get("count"), int):
        return {"input_tokens": answer["count"]}
    return message(answer)


def _naming(send: Send, without_effect: str | None) -> Send:
    if without_effect is None:
        return send
    line = (IGNORED_HEADER.lower().encode(), without_effect.encode())

    async def send_named(event: Message) -> None:
        if event["type"] == "http.response.start":
            event["headers"] = [*event["headers"], line]
        await send(event)

    return send_named


def _with_bearer(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = dict(headers)
    if b"authorization" in names or b"x-api-key" not in names:
        return headers
    return [*headers, (b"authorization", b"Bearer " + names[b"x-api-key"])]


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None when the client left."""
    parts = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        text = f"The request body is not valid JSON: {error}."
        raise BadRequestError(text, param="body", code="invalid_json") from error
    if not isinstance(body, dict):
        raise BadRequestError("The request body must be a JSON object.", param="body", code="invalid_json")
    return body
