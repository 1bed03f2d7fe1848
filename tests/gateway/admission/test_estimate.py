"""Tokens of a request by estimate."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.gateway.admission.estimate import answer_tokens, estimate, prompt_tokens
from service.gateway.endpoints import Kind
from service.gateway.pools import build_catalog
from service.gateway.prepare import Prepared, prepare
from service.profiles.config import Config
from service.settings import GatewaySettings
from service.telemetry.metrics import Metrics
from tests.doubles.stack import MODEL

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}


def prepared(kind: Kind = "chat", **body: Any) -> Prepared:
    catalog = build_catalog(Config(), Metrics(CollectorRegistry()))
    raw = json.dumps({"model": MODEL, **body}).encode()
    return prepare(raw, {}, kind=kind, catalog=catalog, settings=GatewaySettings())


def chat(content: Any, **body: Any) -> Prepared:
    return prepared(messages=[{"role": "user", "content": content}], **body)


@pytest.mark.parametrize(
    ("request_", "low", "high"),
    [
        (chat("word " * 400), 450, 550),
        (chat("日本語" * 100), 250, 350),
        (chat([{"type": "text", "text": "word " * 400}]), 450, 560),
        (chat([{"type": "text", "text": "What is it?"}, IMAGE]), 1000, 1100),
        (chat("Hi", tools=[{"type": "function", "function": {"name": "f", "description": "word " * 80}}]), 100, 140),
        (prepared("completion", prompt=[7] * 300), 300, 300),
        (prepared("completion", prompt=[[7] * 300, [8] * 20]), 320, 320),
        (prepared("completion", prompt=["word " * 4] * 10), 45, 60),
        (prepared("embedding", input=["word " * 4] * 10), 45, 60),
        (prepared("rerank", query="x", documents=["word " * 40] * 4), 180, 220),
    ],
)
def test_prompts(request_: Prepared, low: int, high: int) -> None:
    assert low <= prompt_tokens(request_) <= high


def test_answers() -> None:
    assert answer_tokens(chat("Hi"), 256) == 256
    assert answer_tokens(chat("Hi", max_tokens=7), 256) == 7
    assert answer_tokens(chat("Hi", max_tokens=7, max_completion_tokens=9, n=4), 256) == 36
    assert answer_tokens(prepared("completion", prompt=["a", "b"], max_tokens=5, n=2), 256) == 20
    assert answer_tokens(prepared("embedding", input="x"), 256) == 0
    # The engine refuses these itself.
    for wrong in (0, -3, True, "9", None, 1.5):
        assert answer_tokens(chat("Hi", max_tokens=wrong), 256) == 256


def test_hostile_shapes_neither_take_long_nor_fail() -> None:
    nested: Any = "x"
    for _ in range(900):
        nested = [nested]
    wide = [{"type": "text", "text": ""} for _ in range(40_000)]
    for content in (nested, [[]] * 400_000, wide, {"type": ["list"]}, None, 5, [None, 1.5, {}]):
        request_ = chat(content)
        began = time.perf_counter()
        assert estimate(request_, 256) >= 256
        assert time.perf_counter() - began < 0.2
