"""The HTTP surface in types: what FastAPI serializes, and the documented part of what passes through."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.profiles.schema import SpeculationMode


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    status: Literal["ready", "unready"]
    reasons: list[str]


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "specserve"
    aliases: list[str]
    pools: list[str] = Field(description="names that `speculation.pool` and `X-Specserve-Pool` accept")


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class SpeculationRequest(BaseModel):
    """Asks for or against speculation; without it the engine decides."""

    model_config = ConfigDict(extra="forbid")

    mode: SpeculationMode = "auto"
    pool: str | None = None


class GenerateRequest(BaseModel):
    """Fields that the gateway reads; every other field of SGLang's API passes through."""

    model_config = ConfigDict(extra="allow")

    model: str
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    n: int | None = Field(1, ge=1)
    speculation: SpeculationRequest | None = None
    custom_params: dict[str, Any] | None = None


class ChatCompletionRequest(GenerateRequest):
    messages: list[dict[str, Any]] = Field(min_length=1)


class CompletionRequest(GenerateRequest):
    prompt: str | list[str] | list[int] | list[list[int]]


class SpeculationFigures(BaseModel):
    """Figures of one choice, or of all of them together; null is what nobody knows."""

    acceptance_histogram: list[int] = Field(description="index k: verify steps that accepted k draft tokens")
    num_spec_steps: int = Field(description="verify steps with at least one draft token")
    num_accepted_draft_tokens: int
    num_draft_tokens: int = Field(description="draft tokens proposed")
    mean_acceptance_length: float | None = Field(description="tokens per verify step, bonus token included")
    draft_acceptance_rate: float | None


class SpeculationReport(SpeculationFigures):
    choices: list[SpeculationFigures] | None = Field(None, description="with n > 1 only: one per choice")


class ResponseMetrics(BaseModel):
    speculative_decoding: SpeculationReport | None


class GenerateResponse(BaseModel):
    """SGLang's answer; `metrics` comes with the header `X-Speculation-Metrics: 1` only."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    metrics: ResponseMetrics | None = None


class ErrorObject(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    error: ErrorObject
