"""The official client of Anthropic against the service."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import orjson
import pytest

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack

MESSAGES: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(api_key="secret") as running:
        yield running


@pytest.fixture(scope="module")
def client(stack: Stack) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=stack.url, api_key="secret", max_retries=0)


def test_message(client: anthropic.Anthropic, stack: Stack) -> None:
    answer = client.messages.create(model="smol", max_tokens=20, messages=MESSAGES, system="Be kind.")
    assert [block.to_dict() for block in answer.content] == [{"type": "text", "text": "Paris is it."}]
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 5)
    assert answer._request_id is not None
    assert stack.fake.bodies[-1]["messages"][0] == {"role": "system", "content": "Be kind."}


def test_stream(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model=MODEL, max_tokens=20, messages=MESSAGES) as stream:
        assert "".join(stream.text_stream) == "Paris is it."
        final = stream.get_final_message()
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == 5


def test_speculation_figures(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(
        model=MODEL,
        max_tokens=20,
        messages=MESSAGES,
        extra_headers={"X-Speculation-Metrics": "1"},
        extra_body={"speculation": {"mode": "on"}},
    )
    assert answer.to_dict()["metrics"]["speculative_decoding"]["num_spec_steps"] > 0  # type: ignore[index]


def test_count_tokens(client: anthropic.Anthropic, stack: Stack) -> None:
    stack.fake.knobs.plain = {"count": 11, "tokens": [1] * 11}
    assert client.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens == 11
    assert stack.fake.bodies[-1]["messages"] == MESSAGES
    assert "rid" not in stack.fake.bodies[-1]


def test_errors_are_the_clients_own(client: anthropic.Anthropic, stack: Stack) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="gpt-5", max_tokens=20, messages=MESSAGES)
    assert unknown.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        client.messages.create(model=MODEL, max_tokens=0, messages=MESSAGES)
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=stack.url, api_key="wrong", max_retries=0).messages.create(
            model=MODEL, max_tokens=20, messages=MESSAGES
        )


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": "x"}'])
def test_bodies_that_are_no_requests(stack: Stack, body: bytes) -> None:
    answer = stack.http.post("/v1/messages", content=body, headers={"x-api-key": "secret"})
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert answer.headers["request-id"] == answer.json()["request_id"]


def test_what_has_no_effect_is_named(stack: Stack) -> None:
    body = {
        "model": MODEL,
        "max_tokens": 9,
        "messages": MESSAGES,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    }
    answer = stack.http.post("/v1/messages", json=body, headers={"x-api-key": "secret"})
    assert answer.status_code == 200
    assert answer.headers["x-specserve-ignored"] == "thinking.budget_tokens"


def test_a_stream_that_breaks_ends_with_an_error() -> None:
    with running_stack({"default": [FakeSGLang(die_after=2)]}) as running:
        body = {"model": MODEL, "max_tokens": 9, "messages": MESSAGES, "stream": True}
        lines = running.http.post("/v1/messages", json=body).text.strip().splitlines()
    assert orjson.loads(lines[-1].removeprefix("data: "))["error"]["type"] == "api_error"
