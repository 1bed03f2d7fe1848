"""What a Messages request asks of the chat endpoint, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from service.api.anthropic.request import ignored, to_chat
from service.errors import BadRequestError

USER = {"role": "user", "content": "Hi"}
WEATHER = {"name": "weather", "description": "d", "input_schema": {"properties": {"city": {"type": "string"}}}}


def chat(**fields: Any) -> dict[str, Any]:
    return to_chat({"model": "m", "max_tokens": 9, "messages": [USER], **fields})


def test_plain_request() -> None:
    asked = chat(system="Be kind.", stop_sequences=["x"], temperature=0.5, top_k=4, min_p=0.1)
    assert asked == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "system", "content": "Be kind."}, USER],
        "stop": ["x"],
        "temperature": 0.5,
        "top_k": 4,
        "min_p": 0.1,
    }


def test_streams_ask_for_the_prompt_tokens_at_once() -> None:
    assert chat(stream=True)["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "stream_options" not in chat(stream=False)


def test_the_user_is_the_session() -> None:
    assert chat(metadata={"user_id": "u"})["user"] == "u"


def test_text_blocks_become_one_string_and_images_parts() -> None:
    text = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert chat(messages=[{"role": "user", "content": [text, text]}])["messages"] == [
        {"role": "user", "content": "a\na"}
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    link = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
    parts = chat(messages=[{"role": "user", "content": [text, image, link]}])["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
    assert parts[1]["image_url"]["url"] == "data:image/png;base64,AA=="
    assert parts[2]["image_url"]["url"] == "http://x/y.png"


def test_a_tool_round_keeps_its_order() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]}
    asked = chat(
        messages=[
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, call]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "before"}, result, {"type": "text", "text": "after"}],
            },
        ]
    )["messages"]
    assert asked[1] == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"type": "function", "id": "t1", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
        ],
    }
    assert asked[2:] == [
        {"role": "user", "content": "before"},
        {"role": "tool", "tool_call_id": "t1", "content": "sunny"},
        {"role": "user", "content": "after"},
    ]


def test_tools() -> None:
    asked = chat(tools=[WEATHER], tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True})
    function = asked["tools"][0]["function"]
    assert function["name"] == "weather"
    assert function["parameters"] == {"type": "object", **WEATHER["input_schema"]}  # type: ignore[dict-item]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert asked["parallel_tool_calls"] is False
    assert chat(tools=[WEATHER], tool_choice={"type": "any"})["tool_choice"] == "required"
    assert "tools" not in chat()


def test_thinking_is_the_templates_switch() -> None:
    assert chat(thinking={"type": "disabled"})["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    body = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert chat(**body)["chat_template_kwargs"]["enable_thinking"] is True
    assert ignored(body) == "thinking.budget_tokens"
    assert ignored({"thinking": {"type": "adaptive"}}) is None


def test_what_only_anthropic_does_is_named() -> None:
    asked = {"service_tier": "auto", "cache_control": {"type": "ephemeral"}}
    assert ignored(asked) == "cache_control, service_tier"
    assert not chat(**asked).keys() & asked.keys()


def test_a_system_message_keeps_its_place() -> None:
    system = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    assert chat(messages=[USER, system])["messages"][1] == {"role": "system", "content": "Be brief."}


def test_a_json_schema_of_the_output() -> None:
    asked = chat(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "low"})
    assert asked["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert asked["reasoning_effort"] == "low"


def test_counting_needs_no_max_tokens() -> None:
    assert "max_tokens" not in to_chat({"model": "m", "messages": [USER]}, counted=True)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"container": "c"}, "container"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64"}}]}]},
            "messages[0].content[0].source.type",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}]},
            "messages[0].content[0].type",
        ),
        ({"system": 3}, "system"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": {}}, "tools"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "on"}}, "thinking.type"),
        ({"metadata": {"user_id": 3}}, "metadata.user_id"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        chat(**fields)
    assert refused.value.param == param
    assert f"`{param}`" in refused.value.message
