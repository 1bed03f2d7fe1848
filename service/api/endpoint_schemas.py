"""What the endpoints read that generate nothing, and Anthropic's; other fields pass through to the backend."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class PassedRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str


class EmbeddingRequest(PassedRequest):
    input: str | list[str] | list[int] | list[list[int]]


class RerankRequest(PassedRequest):
    query: str
    documents: list[str]


class ScoreRequest(PassedRequest):
    query: str | list[int]
    items: str | list[str] | list[list[int]]
    label_token_ids: list[int]


class ClassifyRequest(PassedRequest):
    input: str | list[str]


class TokenizeRequest(PassedRequest):
    prompt: str | list[str] | None = Field(None, description="this or `messages`")
    messages: list[dict[str, Any]] | None = None


class DetokenizeRequest(PassedRequest):
    tokens: list[int] | list[list[int]]


class CountTokensRequest(PassedRequest):
    messages: list[dict[str, Any]] = Field(min_length=1)
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None


class MessagesRequest(CountTokensRequest):
    max_tokens: int = Field(ge=1)
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None


class TokenCount(BaseModel):
    input_tokens: int


class MessageResponse(BaseModel):
    """Anthropic's message; `metrics` comes with the header `X-Speculation-Metrics: 1` only."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, int | None]


class MessageError(BaseModel):
    type: str
    message: str


class MessagesErrorResponse(BaseModel):
    type: Literal["error"]
    error: MessageError
    request_id: str | None
