"""A stand-in for SGLang's OpenAI server: its wire shapes, its abort rules, and knobs for its failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

HISTOGRAMS = ((3, 2, 1, 0), (0, 4, 0, 2), (5, 0, 0, 0), (1, 1, 1, 1))


@dataclass
class Knobs:
    """How the fake behaves; tests set what they need. Times are seconds."""

    ttft: float = 0.0
    delay: float = 0.0
    pieces: list[str] = field(default_factory=lambda: ["Par", "is", " is", " it", "."])
    drafted: bool = True
    healthy: bool = True
    status: int = 200
    error_body: Any = None
    die_after: int | None = None
    close_after: int | None = None
    hang_after: int | None = None
    error_after: int | None = None
    knows_aborts: bool = True
    cached_tokens: int | None = None
    kv_tokens: tuple[int, int] | None = None
    """Used and all tokens of the KV pool."""
    series: str = ""
    """What `/metrics` says."""
    account: dict[str, Any] | None = None
    """What our plugin adds to the details of each choice."""
    plain: Any = field(default_factory=lambda: {"object": "list", "data": [], "usage": {"prompt_tokens": 4}})
    """What endpoints answer that generate nothing."""


class FakeSGLang:
    """`app` is the server; the lists tell what it was asked."""

    def __init__(self, **knobs: Any) -> None:
        self.knobs = Knobs(**knobs)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.aborts: list[str] = []
        self.running: dict[str, asyncio.Event] = {}
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self._chat)
        self.app.post("/v1/completions")(self._completion)
        for path in ("embeddings", "rerank", "score", "classify", "tokenize", "detokenize"):
            self.app.post(f"/v1/{path}")(self._plain)
        self.app.post("/abort_request")(self._abort)
        self.app.get("/health")(self._health)
        self.app.get("/v1/loads")(self._loads)
        self.app.get("/metrics")(self._metrics)

    async def _health(self) -> Response:
        return Response(status_code=200 if self.knobs.healthy else 503)

    async def _loads(self) -> Response:
        if self.knobs.kv_tokens is None:
            return Response(status_code=404)
        used, total = self.knobs.kv_tokens
        return JSONResponse({"loads": [{"num_used_tokens": used, "max_total_num_tokens": total}]})

    async def _metrics(self) -> Response:
        return Response(self.knobs.series, media_type="text/plain")

    async def _abort(self, request: Request) -> Response:
        rid = (await request.json())["rid"]
        self.aborts.append(rid)
        if self.knobs.knows_aborts:
            for running, stop in self.running.items():
                if running == rid:
                    stop.set()
        return Response()

    async def _chat(self, request: Request) -> Response:
        return await self._serve(request, chat=True)

    async def _completion(self, request: Request) -> Response:
        return await self._serve(request, chat=False)

    async def _plain(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        if self.knobs.status != 200:
            return JSONResponse(self.knobs.error_body, status_code=self.knobs.status)
        return JSONResponse(self.knobs.plain)

    async def _serve(self, request: Request, *, chat: bool) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        if self.knobs.status != 200:
            return JSONResponse(self.knobs.error_body, status_code=self.knobs.status)
        answer = Answer(self, body, chat=chat)
        if body.get("stream"):
            events = answer.events()
            first = await anext(events)
            return StreamingResponse(_prepend(first, events), media_type="text/event-stream")
        return Response(await answer.whole(), media_type="application/json")


async def _prepend(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for event in rest:
        yield event


class Answer:
    """One generation, in SGLang's shapes."""

    def __init__(self, fake: FakeSGLang, body: dict[str, Any], *, chat: bool) -> None:
        self.fake, self.body, self.chat = fake, body, chat
        self.rid = body["rid"]
        self.n = body.get("n") or 1
        prompts = body.get("prompt")
        self.prompts = len(prompts) if isinstance(prompts, list) and not isinstance(prompts[0], int) else 1
        self.stop = asyncio.Event()
        self.generated = 0
        self.head = {"id": self.rid, "created": 1, "model": body["model"]}

    async def pause(self, seconds: float) -> bool:
        """Wait, and tell whether the request was aborted."""
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def begin(self) -> None:
        self.fake.running[self.rid] = self.stop

    def end(self) -> None:
        self.fake.running.pop(self.rid, None)

    async def generate(self) -> AsyncIterator[str]:
        knobs = self.fake.knobs
        if await self.pause(knobs.ttft):
            return
        for piece in knobs.pieces:
            self.generated += 1
            yield piece
            if await self.pause(knobs.delay):
                return

    def finish_reason(self) -> str:
        return "abort" if self.stop.is_set() else "stop"

    def sglext(self) -> dict[str, Any] | None:
        mode = self.body.get("custom_params", {}).get("specserve", {}).get("mode")
        if not self.fake.knobs.drafted or mode == "off" or not self.generated:
            return None
        choices = self.n * self.prompts
        details = [spec_details(HISTOGRAMS[(len(self.fake.bodies) + k) % len(HISTOGRAMS)]) for k in range(choices)]
        if self.fake.knobs.account is not None:
            details = [{**found, "specserve": self.fake.knobs.account} for found in details]
        result: dict[str, Any] = {}
        if self.body.get("return_spec_tokens_details"):
            result["spec_tokens_details"] = details if self.n > 1 else details[0]
        if self.body.get("return_cached_tokens_details"):
            result["cached_tokens_details"] = {"device": 3}
        return result or None

    def usage(self) -> dict[str, Any]:
        tokens = self.generated * self.n * self.prompts
        cached = self.fake.knobs.cached_tokens
        return {
            "prompt_tokens": 7,
            "completion_tokens": tokens,
            "total_tokens": 7 + tokens,
            "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        }

    def choice(self, index: int, text: str, reason: str | None, *, delta: bool) -> dict[str, Any]:
        content: dict[str, Any] = {"text": text}
        if self.chat:
            content = {"delta" if delta else "message": {"role": "assistant", "content": text}}
        return {"index": index, **content, "logprobs": None, "finish_reason": reason}

    async def whole(self) -> bytes:
        self.begin()
        try:
            text = "".join([piece async for piece in self.generate()])
        finally:
            self.end()
        count = self.n * self.prompts
        choices = [self.choice(index, text, self.finish_reason(), delta=False) for index in range(count)]
        kind = "chat.completion" if self.chat else "text_completion"
        body = {**self.head, "object": kind, "choices": choices, "usage": self.usage(), "metadata": None}
        if (sglext := self.sglext()) is not None:
            body["sglext"] = sglext
        return dumps(body).encode()

    async def events(self) -> AsyncIterator[str]:
        self.begin()
        try:
            async for event in self._events():
                yield event
        finally:
            self.end()

    async def _events(self) -> AsyncIterator[str]:
        knobs = self.fake.knobs
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        head = {**self.head, "object": kind}
        async for piece in self.generate():
            for index in range(self.n):
                yield sse({**head, "choices": [self.choice(index, piece, None, delta=True)], "usage": None})
            if knobs.die_after == self.generated:
                raise ConnectionError("the fake dies")
            if knobs.close_after == self.generated:
                return
            if knobs.hang_after == self.generated:
                await self.pause(3600)
            if knobs.error_after == self.generated:
                yield sse(
                    {
                        "error": {
                            "object": "error",
                            "message": "out of memory",
                            "type": "ServerError",
                            "code": 500,
                        }
                    }
                )
                yield "data: [DONE]\n\n"
                return
        for index in range(self.n):
            yield sse({**head, "choices": [self.choice(index, "", self.finish_reason(), delta=True)], "usage": None})
        if (sglext := self.sglext()) is not None:
            yield sse({**head, "choices": [], "usage": None, "sglext": sglext})
        if (self.body.get("stream_options") or {}).get("include_usage"):
            yield sse({**head, "choices": [], "usage": self.usage()})
        yield "data: [DONE]\n\n"


def spec_details(histogram: tuple[int, ...]) -> dict[str, Any]:
    """SGLang's details for a histogram of accepted drafts, three proposed in each step."""
    steps = sum(histogram)
    accepted = sum(k * count for k, count in enumerate(histogram))
    return {
        "spec_accept_rate": accepted / (3 * steps),
        "spec_accept_length": 1 + accepted / steps,
        "spec_cap_length": 0.0,
        "spec_num_correct_drafts": accepted,
        "spec_num_proposed_drafts": 3 * steps,
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": list(histogram),
        "spec_cap_lens_histogram": [],
    }


def dumps(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def sse(body: Any) -> str:
    return f"data: {dumps(body)}\n\n"
