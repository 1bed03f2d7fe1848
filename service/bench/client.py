"""A small OpenAI client for measuring: token ids, top-two margins, speculation figures, arrival times."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import orjson

from service.errors import EngineError

Mode = Literal["auto", "on", "off"]
Dialect = Literal["engine", "gateway"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One choice. `margins` are logit differences between the two best tokens, one a token, when asked for.

    `proposed` and `accepted` count draft tokens of the whole request; None when nothing was speculated.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: str | None
    margins: tuple[float, ...] | None = None
    proposed: int | None = None
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """A streamed answer: seconds to the first token and to the last, completion tokens, drafts.

    `details` is the engine's own account of the speculation, None where it gave none; `arrivals` are the seconds and
    characters of each piece of text.
    """

    first_s: float
    last_s: float
    tokens: int
    proposed: int | None
    accepted: int | None
    details: Mapping[str, Any] | None = None
    arrivals: tuple[tuple[float, int], ...] = ()

    @property
    def decode_rate(self) -> float | None:
        """Tokens a second behind the first token; None for answers of one token."""
        spent = self.last_s - self.first_s
        return (self.tokens - 1) / spent if self.tokens > 1 and spent > 0 else None


class Client:
    """Talks to SGLang itself (`engine`) or to the service (`gateway`), which names the mode differently."""

    def __init__(self, session: aiohttp.ClientSession, model: str, dialect: Dialect) -> None:
        self._session = session
        self._model = model
        self._dialect = dialect

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        mode: Mode | None = None,
        margins: bool = False,
        **params: Any,
    ) -> list[Completion]:
        """One chat completion with any further OpenAI or SGLang parameters; a list of its choices.

        Raises EngineError for an answer other than 200.
        """
        body = self._body(messages, mode) | {"return_token_ids": True} | params
        if margins:
            body |= {"logprobs": True, "top_logprobs": 2}
        answer = await self.post("/v1/chat/completions", body)
        proposed, accepted = _drafts(answer)
        return [_completion(choice, proposed, accepted) for choice in answer["choices"]]

    async def stream(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        mode: Mode | None = None,
        drafter: str | None = None,
        choices: bool = False,
        **params: Any,
    ) -> Timing:
        """One streamed chat completion, only timed.

        `drafter`, and `choices` (every step's choice is told), are for an engine of algorithm SPECSERVE alone.

        Raises EngineError when no token arrives.
        """
        body = (
            self._body(messages, mode, drafter, choices)
            | {"stream": True, "stream_options": {"include_usage": True}}
            | params
        )
        started = time.perf_counter()
        arrivals: list[tuple[float, int]] = []
        usage: dict[str, Any] = {}
        drafts: tuple[int | None, int | None] = (None, None)
        details = None
        async for event in self.events("/v1/chat/completions", body):
            deltas = [choice.get("delta") or {} for choice in event["choices"]]
            if any(map(_holds_text, deltas)):
                text = sum(len(delta.get("content") or "") for delta in deltas)
                arrivals.append((time.perf_counter() - started, text))
            usage = event.get("usage") or usage
            if event.get("sglext") or event.get("metrics"):
                drafts = _drafts(event)
                details = (event.get("sglext") or {}).get("spec_tokens_details")
        if not arrivals:
            raise EngineError("the answer held no text to time")
        return Timing(arrivals[0][0], arrivals[-1][0], usage["completion_tokens"], *drafts, details, tuple(arrivals))

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST JSON, read JSON. Raises EngineError for an answer other than 200."""
        async with self._session.post(path, json=body, headers=self._headers()) as response:
            raw = await response.read()
            if response.status != 200:
                raise EngineError(f"{path} answered {response.status}: {raw[:300].decode(errors='replace')}")
            answer: dict[str, Any] = orjson.loads(raw)
            return answer

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """POST JSON, yield the JSON of each SSE event as it arrives. Raises EngineError as `post` does."""
        async with self._session.post(path, json=body, headers=self._headers()) as response:
            if response.status != 200:
                raise EngineError(f"{path} answered {response.status}: {(await response.text())[:300]}")
            async for line in response.content:
                if line.startswith(b"data: {"):
                    yield orjson.loads(line[6:])

    async def text(self, path: str) -> str:
        """The body of a GET. Raises EngineError for an answer other than 200."""
        async with self._session.get(path) as response:
            body = await response.text()
            if response.status != 200:
                raise EngineError(f"{path} answered {response.status}: {body[:300]}")
            return body

    async def get(self, path: str) -> Any:
        """The JSON of a GET. Raises EngineError as `text` does."""
        return orjson.loads(await self.text(path))

    async def abort(self, rid: str) -> None:
        """Stop the request with that id, if it is there. SGLang only."""
        async with self._session.post("/abort_request", json={"rid": rid}) as response:
            if response.status != 200:
                raise EngineError(f"/abort_request answered {response.status}: {(await response.text())[:300]}")

    async def flush_cache(self) -> None:
        """Empty the prefix cache and all drafters' memory. SGLang only; it must be idle."""
        async with self._session.post("/flush_cache", params={"timeout": "30"}) as response:
            if response.status != 200:
                raise EngineError(f"/flush_cache answered {response.status}: {(await response.text())[:300]}")

    def _headers(self) -> dict[str, str]:
        return {"X-Speculation-Metrics": "1"} if self._dialect == "gateway" else {}

    def _body(
        self,
        messages: Sequence[Mapping[str, str]],
        mode: Mode | None,
        drafter: str | None = None,
        choices: bool = False,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": list(messages)}
        named = (("mode", mode), ("drafter", drafter), ("choices", choices or None))
        wishes = {name: wish for name, wish in named if wish is not None}
        if self._dialect == "engine":
            body["return_spec_tokens_details"] = True
            if wishes:
                body["custom_params"] = {"specserve": wishes}
        elif wishes:
            body["speculation"] = wishes
        return body


@asynccontextmanager
async def connected(url: str, dialect: Dialect, model: str | None = None) -> AsyncIterator[Client]:
    """A client with its own connections; `model` None takes the first one that the server lists."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=900)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector, read_bufsize=1 << 22) as session:
        yield Client(session, model or await _first_model(session, url), dialect)


async def _first_model(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get("/v1/models") as response:
            return str((await response.json())["data"][0]["id"])
    except (aiohttp.ClientError, KeyError, IndexError, ValueError) as error:
        raise EngineError(f"nothing at {url} lists models ({error}); start it or name another with --url") from None


def _completion(choice: Mapping[str, Any], proposed: int | None, accepted: int | None) -> Completion:
    ids = choice.get("response_token_ids")
    if ids is None:
        raise EngineError("the answer carries no response_token_ids; is the server SGLang 0.5.23 or our gateway?")
    margins = None
    if choice.get("logprobs"):
        margins = tuple(_margin(entry["top_logprobs"]) for entry in choice["logprobs"]["content"])
    return Completion(
        choice["message"]["content"] or "", tuple(ids), choice["finish_reason"], margins, proposed, accepted
    )


def _holds_text(delta: Mapping[str, Any]) -> bool:
    return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"))


def _margin(top: Sequence[Mapping[str, Any]]) -> float:
    best, second = sorted((entry["logprob"] for entry in top), reverse=True)[:2]
    return float(best - second)


def _drafts(answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Proposed and accepted draft tokens of all choices together."""
    details = (answer.get("sglext") or {}).get("spec_tokens_details")
    if details is not None:
        choices = details if isinstance(details, list) else [details]
        return (
            sum(c["spec_num_proposed_drafts"] for c in choices),
            sum(c["spec_num_correct_drafts"] for c in choices),
        )
    figures = (answer.get("metrics") or {}).get("speculative_decoding")
    if figures is not None:
        return figures["num_draft_tokens"], figures["num_accepted_draft_tokens"]
    return None, None
