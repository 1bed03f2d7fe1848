"""How many tokens a request will take, before anybody has counted them."""

from __future__ import annotations

from typing import Any

from service.gateway.prepare import Prepared

# English text has about four bytes in a token, other scripts about three.
_ASCII_BYTES, _OTHER_BYTES = 4, 3
# What a chat template puts around a message, and what an image, a sound or a film is reckoned with.
_MESSAGE_TOKENS, _MEDIA_TOKENS = 4, 1000
_MEDIA = frozenset({"image_url", "input_image", "image", "video_url", "audio_url", "input_audio", "file"})
_MOST_PARTS = 10_000
BUDGETS = ("max_completion_tokens", "max_tokens")


def estimate(prepared: Prepared, otherwise: int) -> int:
    """Prompt and answer, at least 1; `otherwise` as in `answer_tokens`."""
    return max(prompt_tokens(prepared) + answer_tokens(prepared, otherwise), 1)


def prompt_tokens(prepared: Prepared) -> int:
    """Of all prompts together: exact for token ids, by the length of texts otherwise."""
    body = prepared.body
    found = _tokens(body[prepared.prompt_field])
    return found + _tokens(body["tools"]) if body.get("tools") else found


def answer_tokens(prepared: Prepared, otherwise: int) -> int:
    """The most that all choices together may have; `otherwise` for each where the request names no maximum."""
    if not prepared.endpoint.generates:
        return 0
    return prepared.choices * (budget(prepared.body) or otherwise)


def budget(body: dict[str, Any]) -> int | None:
    """The request's own maximum; None where there is none, or none that an engine would take."""
    for name in BUDGETS:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _tokens(given: object) -> int:
    """Walks through without recursion: nesting is the client's choice. What comes after many parts counts one each."""
    stack, total, seen = [[given]], 0, 0
    while stack:
        parts = stack.pop()
        seen += len(parts)
        if seen > _MOST_PARTS:
            return total + sum(map(len, stack), len(parts))
        for part in parts:
            if isinstance(part, str):
                total += _text_tokens(part)
            elif isinstance(part, dict):
                if str(part.get("type")) in _MEDIA:
                    total += _MEDIA_TOKENS
                else:
                    total += _MESSAGE_TOKENS
                    stack.append(list(part.values()))
            elif isinstance(part, list):
                if part and isinstance(part[0], int):
                    total += len(part)
                else:
                    stack.append(part)
    return total


def _text_tokens(text: str) -> int:
    if text.isascii():
        return -(-len(text) // _ASCII_BYTES)
    return -(-len(text.encode("utf-8", "surrogatepass")) // _OTHER_BYTES)
