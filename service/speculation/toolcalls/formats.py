"""How calls are wrapped: the marks around the JSON that SGLang's tool-call parsers look for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """Calls between `begin` and `end`: one call each, or with `many` a list of them; `keys` hold the arguments.

    A format whose `begin` is empty starts with the answer itself.
    """

    name: str
    begin: str
    end: str
    arguments: str = "arguments"
    many: bool = False


ARRAY = Format("array", "", "", arguments="parameters", many=True)
OBJECT = Format("object", "", "", arguments="parameters")
FORMATS = (
    Format("hermes", "<tool_call>", "</tool_call>"),
    Format("llama3", "<|python_tag|>", ""),
    Format("mistral", "[TOOL_CALLS]", "", many=True),
    ARRAY,
    OBJECT,
)
"""hermes is also what Qwen 2.5 and 3 write. array is what SGLang's JSON grammar forces without a parser's own format,
object what Llama 3.2 writes without its tag."""

MARKED = tuple(one for one in FORMATS if one.begin)
LONGEST = max(len(one.begin) for one in MARKED)


def opening(text: str, start: bool) -> tuple[Format, int] | None:
    """The first format that opens in a text and where its JSON begins; `start`: the answer begins with the text."""
    found = [(at, one) for one in MARKED if (at := text.find(one.begin)) >= 0]
    if found:
        at, one = min(found, key=lambda pair: pair[0])
        return one, at + len(one.begin)
    stripped = text.lstrip()
    if start and stripped[:1] in ("[", "{"):
        # Mistral's mark begins with a bracket as well.
        if "[TOOL_CALLS]".startswith(stripped):
            return None
        return ARRAY if stripped[0] == "[" else OBJECT, len(text) - len(stripped)
    return None
