"""The endpoints of a backend that the gateway offers, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["chat", "completion", "embedding", "rerank", "score", "classify", "tokenize", "detokenize"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint; its path is the backend's too.

    `reads` are fields of which a request has at least one: what the engine reads, and what routing looks at.
    `abortable`: the backend knows the request by a `rid`. `metered`: it is work of the model, so it counts in the
    series of its pool; others show in the log only.
    """

    path: str
    summary: str
    reads: tuple[str, ...]
    generates: bool = False
    abortable: bool = True
    metered: bool = True


ENDPOINTS: dict[Kind, Endpoint] = {
    "chat": Endpoint("/v1/chat/completions", "Chat completion", ("messages",), generates=True),
    "completion": Endpoint("/v1/completions", "Text completion", ("prompt",), generates=True),
    "embedding": Endpoint("/v1/embeddings", "Embeddings of texts", ("input",)),
    "rerank": Endpoint("/v1/rerank", "Order documents by a query", ("documents",), abortable=False),
    "score": Endpoint("/v1/score", "Probabilities of label tokens", ("items",), abortable=False),
    "classify": Endpoint("/v1/classify", "Classes of texts", ("input",)),
    "tokenize": Endpoint(
        "/v1/tokenize", "Token ids of a text or a chat", ("prompt", "messages"), abortable=False, metered=False
    ),
    "detokenize": Endpoint("/v1/detokenize", "Text of token ids", ("tokens",), abortable=False, metered=False),
}
GENERATING: tuple[Kind, ...] = tuple(kind for kind, endpoint in ENDPOINTS.items() if endpoint.generates)
