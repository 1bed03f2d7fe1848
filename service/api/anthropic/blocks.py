"""Content blocks of Anthropic's messages as OpenAI's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from service.errors import BadRequestError

Part = dict[str, Any]


def wrong(field: str, what: str) -> BadRequestError:
    """The refusal of one field; `what` completes the sentence."""
    return BadRequestError(f"`{field}` {what}.", param=field, code="invalid_value")


def typed_blocks(content: object, field: str) -> Iterator[tuple[str, Part]]:
    """Each block with its place. A string is one text block. Raises BadRequestError for anything else."""
    if isinstance(content, str):
        yield field, {"type": "text", "text": content}
        return
    if not isinstance(content, list):
        raise wrong(field, "must be a string or a list of content blocks")
    for index, block in enumerate(content):
        place = f"{field}[{index}]"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise wrong(place, "must be an object with a `type`")
        yield place, block


def string(holder: Mapping[str, Any], key: str, field: str) -> str:
    """A field that must be there and hold a string."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise wrong(f"{field}.{key}", "must be a string")
    return value


def joined_text(content: object, field: str) -> str:
    """The text of blocks that can only be text: system prompts."""
    texts = []
    for place, block in typed_blocks(content, field):
        if block["type"] != "text":
            raise wrong(f"{place}.type", "must be text here")
        texts.append(string(block, "text", place))
    return "\n".join(texts)


def user_messages(content: object, field: str) -> Iterator[Part]:
    """OpenAI's messages for a user turn, in the order of its blocks: tool results are messages of their own."""
    parts: list[Part] = []
    for place, block in typed_blocks(content, field):
        if block["type"] == "tool_result":
            yield from _user(parts)
            parts = []
            yield {
                "role": "tool",
                "tool_call_id": string(block, "tool_use_id", place),
                "content": _plain(list(_parts(block.get("content", ""), f"{place}.content"))),
            }
        else:
            parts.append(_part(place, block))
    yield from _user(parts)


def assistant_message(content: object, field: str) -> Part:
    """OpenAI's message for an assistant turn; thinking goes back as `reasoning_content`."""
    texts, thoughts, calls = [], [], []
    for place, block in typed_blocks(content, field):
        match block["type"]:
            case "text":
                texts.append(string(block, "text", place))
            case "thinking":
                thoughts.append(string(block, "thinking", place))
            case "tool_use":
                calls.append(_call(place, block))
            case other:
                raise wrong(f"{place}.type", f"cannot be {other[:64]} in an assistant message here")
    message: Part = {"role": "assistant", "content": "".join(texts) if texts or not calls else None}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _user(parts: list[Part]) -> Iterator[Part]:
    if parts:
        yield {"role": "user", "content": _plain(parts)}


def _plain(parts: list[Part]) -> str | list[Part]:
    """Chat templates of small models take strings only, so text alone becomes one."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _parts(content: object, field: str) -> Iterator[Part]:
    return (_part(place, block) for place, block in typed_blocks(content, field))


def _part(place: str, block: Part) -> Part:
    read = _READERS.get(block["type"])
    if read is None:
        raise wrong(f"{place}.type", f"{block['type'][:64]} is not offered here: send text or images")
    return read(place, block)


def _text(place: str, block: Part) -> Part:
    return {"type": "text", "text": string(block, "text", place)}


def _image(place: str, block: Part) -> Part:
    source = _source(place, block)
    if source["type"] == "url":
        url = string(source, "url", f"{place}.source")
    elif source["type"] == "base64":
        kind = string(source, "media_type", f"{place}.source")
        url = f"data:{kind};base64,{string(source, 'data', f'{place}.source')}"
    else:
        raise wrong(f"{place}.source.type", "must be base64 or url")
    return {"type": "image_url", "image_url": {"url": url}}


def _document(place: str, block: Part) -> Part:
    source = _source(place, block)
    if source["type"] != "text":
        raise wrong(f"{place}.source.type", "must be text: other documents are not read here")
    return {"type": "text", "text": string(source, "data", f"{place}.source")}


def _source(place: str, block: Part) -> Part:
    source = block.get("source")
    if not isinstance(source, dict) or not isinstance(source.get("type"), str):
        raise wrong(f"{place}.source", "must be an object with a `type`")
    return source


def _call(place: str, block: Part) -> Part:
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        raise wrong(f"{place}.input", "must be an object")
    function = {"name": string(block, "name", place), "arguments": orjson.dumps(arguments).decode()}
    return {"type": "function", "id": string(block, "id", place), "function": function}


_READERS: Mapping[str, Callable[[str, Part], Part]] = {"text": _text, "image": _image, "document": _document}
