"""The official client, as an application would use it."""

from __future__ import annotations

import json

import openai
import pytest

from tests.e2e.live import MODEL, Service

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
def client(service: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.api}/v1", api_key="unused", max_retries=0, timeout=120)


def test_models(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=32, temperature=0)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="One, two, three, four,", max_tokens=6, temperature=0)
    assert "five" in answer.choices[0].text


@pytest.mark.parametrize("with_usage", [True, False])
def test_stream_equals_the_answer_in_one_piece(client: openai.OpenAI, with_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=32, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=32, temperature=0, stream=True, **options
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert [c.usage.completion_tokens for c in chunks if not c.choices] == (
        [whole.usage.completion_tokens] if with_usage else []
    )


def test_two_choices(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, max_tokens=16, temperature=1.2, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content
    chunks = client.chat.completions.create(
        model=MODEL, messages=QUESTION, n=2, max_tokens=16, temperature=1.2, seed=7, stream=True
    )
    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in answer.choices]


def test_stop(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=32, temperature=0, stop=["France"]
    )
    assert answer.choices[0].message.content == "The capital of "
    assert answer.choices[0].finish_reason == "stop"


def test_seed_repeats_with_drafts_and_without(client: openai.OpenAI) -> None:
    def story(seed: int, mode: str) -> str:
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Tell me a story about a dog. Repeat the word dog often."}],
            max_tokens=48,
            temperature=1.0,
            seed=seed,
            extra_body={"speculation": {"mode": mode}},
        )
        return str(answer.choices[0].message.content)

    assert story(1, "on") == story(1, "on") == story(1, "off") != story(2, "on")


def test_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=8, temperature=0, logprobs=True, top_logprobs=3
    )
    for token in answer.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.logprob == max(top.logprob for top in token.top_logprobs) <= 0


def test_json_schema(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Invent a person. Answer in JSON."}],
        max_tokens=64,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    )
    person = json.loads(answer.choices[0].message.content)
    assert isinstance(person["name"], str) and isinstance(person["age"], int)


def test_forced_tool_call(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=64,
        temperature=0,
    )
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


async def test_async_client(service: Service) -> None:
    async with openai.AsyncOpenAI(base_url=f"{service.api}/v1", api_key="unused", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=32, temperature=0, stream=True
        )
        text = "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
    assert "Paris" in text


def test_errors_are_the_clients_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-9", messages=QUESTION)
    assert unknown.value.param == "model" and unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 20000}])
