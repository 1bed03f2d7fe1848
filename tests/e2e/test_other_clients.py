"""Anthropic's official client, and endpoints that generate nothing, against a real engine."""

from __future__ import annotations

import anthropic
import openai
import pytest

from tests.e2e.live import MODEL, Service

QUESTION: list[anthropic.types.MessageParam] = [{"role": "user", "content": "What is the capital of France?"}]
ASKED: list[anthropic.types.MessageParam] = [{"role": "user", "content": "What is the weather in Paris?"}]
GREEDY = {"temperature": 0}
WEATHER: anthropic.types.ToolParam = {
    "name": "get_weather",
    "strict": True,
    "description": "Current weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
def client(service: Service) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=service.api, api_key="unused", max_retries=0, timeout=120)


def test_message_and_stream_are_the_same(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(model=MODEL, max_tokens=32, messages=QUESTION, extra_body=GREEDY)
    assert "Paris" in answer.content[0].text  # type: ignore[union-attr]
    assert answer.stop_reason == "end_turn"
    with client.messages.stream(model=MODEL, max_tokens=32, messages=QUESTION, extra_body=GREEDY) as stream:
        assert "".join(stream.text_stream) == answer.content[0].text  # type: ignore[union-attr]
        final = stream.get_final_message()
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == answer.usage.output_tokens


def test_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(
        model=MODEL, max_tokens=32, messages=QUESTION, extra_body=GREEDY, stop_sequences=["France"]
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "France")


def test_prompt_tokens_are_counted_as_they_are_used(client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(model=MODEL, messages=QUESTION, system="Be kind.")
    used = client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION, system="Be kind.").usage
    assert counted.input_tokens == used.input_tokens + (used.cache_read_input_tokens or 0)


@pytest.mark.parametrize("stream", [False, True])
def test_forced_tool_and_its_result(client: anthropic.Anthropic, stream: bool) -> None:
    asked = {"model": MODEL, "max_tokens": 64, "extra_body": GREEDY, "tools": [WEATHER], "messages": ASKED}
    asked["tool_choice"] = {"type": "tool", "name": "get_weather"}
    if stream:
        with client.messages.stream(**asked) as events:  # type: ignore[arg-type]
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**asked)  # type: ignore[call-overload]
    # SGLang's streams pass on text that the model wrote behind its call; its whole answers leave it out.
    call = next(block for block in answer.content if block.type == "tool_use")
    assert (call.type, call.name, answer.stop_reason) == ("tool_use", "get_weather", "tool_use")
    assert isinstance(call.input["city"], str)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    turns = [*ASKED, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    after = client.messages.create(model=MODEL, max_tokens=8, tools=[WEATHER], messages=turns)  # type: ignore[arg-type]
    assert after.usage.output_tokens > 0


def test_tokens_there_and_back(service: Service) -> None:
    client = openai.OpenAI(base_url=f"{service.api}/v1", api_key="unused", max_retries=0, timeout=60)
    ids = client.post("/tokenize", body={"model": MODEL, "prompt": "Paris is it."}, cast_to=dict[str, object])
    text = client.post("/detokenize", body={"model": MODEL, "tokens": ids["tokens"]}, cast_to=dict[str, object])
    assert text["text"] == "Paris is it."
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model=MODEL, input="a model that generates embeds nothing")
