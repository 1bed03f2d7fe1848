"""The official client against the service: what its users do must just work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import openai
import pytest

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import MODEL, Stack, running_stack

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(api_key="secret") as running:
        yield running


@pytest.fixture(scope="module")
def client(stack: Stack) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.url}/v1", api_key="secret", max_retries=0)


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve("smol").id == MODEL


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="smol", messages=MESSAGES, n=2, seed=1, stop=["x"])
    assert [choice.message.content for choice in answer.choices] == ["Paris is it."] * 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10
    assert not (answer.model_extra or {}).keys() & {"sglext", "metrics"}


def test_streaming_yields_content_chunks_only(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
    # Every chunk has a choice: clients index `choices[0]` without looking.
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Paris is it."


def test_streaming_with_usage(client: openai.OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, stream_options=options))
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 12
    assert all(chunk.choices for chunk in chunks[:-1])


def test_text_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="The capital", logprobs=2)
    assert answer.choices[0].text == "Paris is it."
    text = "".join(chunk.choices[0].text for chunk in client.completions.create(model=MODEL, prompt="x", stream=True))
    assert text == "Paris is it."


def test_speculation_figures_by_extra_body_and_header(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        extra_body={"speculation": {"mode": "on"}},
        extra_headers={"X-Speculation-Metrics": "1"},
    )
    assert answer.model_extra is not None
    assert answer.model_extra["metrics"]["speculative_decoding"]["num_spec_steps"] > 0


async def test_async_and_concurrent(stack: Stack) -> None:
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="secret", max_retries=0) as client:

        async def one() -> str:
            stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        assert await asyncio.gather(*(one() for _ in range(20))) == ["Paris is it."] * 20


def test_errors_are_typed(client: openai.OpenAI, stack: Stack) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    assert missing.value.param == "model"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, n=99)
    assert bad.value.param == "n"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{stack.url}/v1", api_key="wrong", max_retries=0).models.list()


def test_a_stream_that_breaks_raises_in_the_client() -> None:
    with running_stack({"default": [FakeSGLang(die_after=2, delay=0.05)]}) as stack:
        client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.APIError, match="broke off"):
            for _ in client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
                pass


def test_a_client_that_closes_its_stream_aborts_upstream() -> None:
    with running_stack({"default": [FakeSGLang(delay=0.02, pieces=["x"] * 1000)]}) as stack:
        client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="x", max_retries=0)
        with client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True) as stream:
            next(iter(stream))
        from tests.doubles.wait import wait_until

        assert wait_until(lambda: not stack.fake.running) < 1
