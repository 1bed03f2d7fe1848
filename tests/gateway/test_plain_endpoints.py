"""Endpoints that generate nothing: what the backend answers passes as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.doubles.stack import MODEL, Stack, running_stack

ASKED: dict[str, dict[str, Any]] = {
    "embeddings": {"input": ["a", "b"]},
    "rerank": {"query": "q", "documents": ["a"]},
    "score": {"query": "q", "items": ["a"], "label_token_ids": [1]},
    "classify": {"input": "a"},
    "tokenize": {"prompt": "a"},
    "detokenize": {"tokens": [1]},
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack() as running:
        yield running


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("plain", [{"data": [1.5], "usage": {"prompt_tokens": 4}}, [{"score": 0.5}]])
def test_answers_pass_as_they_are(stack: Stack, name: str, plain: object) -> None:
    stack.fake.knobs.plain = plain
    answer = stack.http.post(f"/v1/{name}", json={"model": "smol", "extra": 1, **ASKED[name]})
    assert answer.status_code == 200
    assert answer.json() == plain
    assert answer.headers["x-specserve-pool"] == "default"
    asked = stack.fake.bodies[-1]
    rid = asked.pop("rid", None)
    assert asked == {"model": MODEL, "extra": 1, **ASKED[name]}
    assert (rid is not None) == (name in ("embeddings", "classify"))


def test_work_of_the_model_counts_and_counting_tokens_does_not(stack: Stack) -> None:
    def requests() -> float:
        labels = {"model": MODEL, "pool": "default", "outcome": "ok"}
        return stack.metric("specserve_requests_total", **labels) or 0

    before = requests()
    for name in ("tokenize", "detokenize"):
        stack.http.post(f"/v1/{name}", json={"model": MODEL, **ASKED[name]})
    assert requests() == before
    stack.http.post("/v1/embeddings", json={"model": MODEL, **ASKED["embeddings"]})
    assert requests() == before + 1


@pytest.mark.parametrize(
    ("name", "body", "param"),
    [
        ("embeddings", {}, "input"),
        ("tokenize", {}, "prompt"),
        ("embeddings", {"input": "a", "stream": True}, "stream"),
        ("embeddings", {"input": "a", "speculation": {"mode": "off"}}, "speculation.mode"),
        ("embeddings", {"input": "a", "rid": "x"}, "rid"),
    ],
)
def test_refusals_name_the_field(stack: Stack, name: str, body: dict[str, Any], param: str) -> None:
    answer = stack.http.post(f"/v1/{name}", json={"model": MODEL, **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_refusal_of_the_backend_is_the_clients(stack: Stack) -> None:
    stack.fake.knobs.status = 400
    stack.fake.knobs.error_body = {
        "object": "error",
        "message": "no embeddings here",
        "type": "BadRequest",
        "code": 400,
    }
    try:
        answer = stack.http.post("/v1/embeddings", json={"model": MODEL, "input": "a"})
    finally:
        stack.fake.knobs.status = 200
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "no embeddings here"
