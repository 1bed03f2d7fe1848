"""The JSON Schemas of a request's tools, reduced to what a draft can be made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_PARTS = 64
"""How many combined or referred-to schemas make up one value at most."""


class Schema:
    """One value of a call: its JSON types (empty: any), and what is known of its inside.

    `choices` are the JSON texts of an enum or constant; `keys` are an object's properties in the schema's order.
    The insides are read when they are asked for, so schemas may contain themselves.
    """

    def __init__(
        self,
        types: frozenset[str] = frozenset(),
        choices: tuple[str, ...] = (),
        items: Schema | None = None,
        parts: Sequence[Mapping[str, Any]] = (),
        root: object = None,
    ) -> None:
        self.types = types
        self.choices = choices
        self._parts = parts
        self._root = root
        self._items = items
        self._members: dict[str, Schema] = {}
        self._raw: dict[str, object] = {}
        for part in parts:
            declared = part.get("properties")
            for key, value in declared.items() if isinstance(declared, Mapping) else ():
                self._raw.setdefault(str(key), value)
        # With alternatives, what one of them requires another may not even know.
        sure = not any(key in part for part in parts for key in ("anyOf", "oneOf"))
        required = {key for part in parts for key in _strings(part.get("required"))} if sure else set()
        self.required = frozenset(required & self._raw.keys())
        self.keys = tuple(self._raw)
        kinds = self.types - {"null"}
        self.only = next(iter(kinds)) if len(kinds) == 1 else None
        """The JSON type, where there is just one besides null."""

    def member(self, key: str) -> Schema:
        """The schema of a property; ANY for one that is not declared."""
        if key not in self._raw:
            return ANY
        if key not in self._members:
            self._members[key] = _read(self._raw[key], self._root)
        return self._members[key]

    @property
    def items(self) -> Schema:
        """The schema of an array's items."""
        if self._items is None:
            self._items = next((_read(part["items"], self._root) for part in self._parts if "items" in part), ANY)
        return self._items


ANY = Schema()
ANY_OBJECT = Schema(frozenset({"object"}))


class Toolbox:
    """The tools that a request may call, by name, in the request's order. Schemas are read when they are first used."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Take OpenAI tool objects. What is no function or has no name is left out: it cannot be called by name."""
        functions = [tool.get("function") for tool in tools]
        self._raw: dict[str, object] = {
            function["name"]: function.get("parameters")
            for function in functions
            if isinstance(function, Mapping) and isinstance(function.get("name"), str)
        }
        self._read: dict[str, Schema] = {}
        self.name = Schema(frozenset({"string"}), tuple(json.dumps(name, ensure_ascii=False) for name in self._raw))

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._raw

    def arguments(self, tool: str | None) -> Schema:
        """The schema of the tool's arguments; any object for a tool that is not among them."""
        if tool is None or tool not in self._raw:
            return ANY_OBJECT
        if tool not in self._read:
            schema = parse(self._raw[tool])
            self._read[tool] = schema if schema.types else ANY_OBJECT
        return self._read[tool]


def parse(schema: object) -> Schema:
    """Read a JSON Schema; what it says beyond types, choices, properties and items is passed over.

    Never raises: a schema that makes no sense says nothing.
    """
    return _read(schema, schema)


def _read(schema: object, root: object) -> Schema:
    if not isinstance(schema, Mapping):
        return ANY
    parts = _combined(schema, root)
    types = frozenset(kind for part in parts for kind in _types(part))
    choices = dict.fromkeys(choice for part in parts for choice in _choices(part))
    return Schema(types or _implied(parts), tuple(choices), parts=parts, root=root)


def _combined(schema: Mapping[str, Any], root: object) -> list[Mapping[str, Any]]:
    """The schema itself and all that it refers to or is combined from, flat."""
    parts: list[Mapping[str, Any]] = []
    waiting: list[object] = [schema]
    while waiting and len(parts) < MAX_PARTS:
        part = waiting.pop(0)
        if isinstance(part, Mapping) and not any(part is known for known in parts):
            parts.append(part)
            waiting.append(_resolve(part.get("$ref"), root))
            for key in ("allOf", "anyOf", "oneOf"):
                waiting += part[key] if isinstance(part.get(key), list) else ()
    return parts


def _resolve(reference: object, root: object) -> object:
    """What a reference within the document names; None for one that leads nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    for step in reference[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        root = root.get(key) if isinstance(root, Mapping) else None
    return root


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _types(part: Mapping[str, Any]) -> list[str]:
    stated = part.get("type")
    return [stated] if isinstance(stated, str) else _strings(stated)


def _implied(parts: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The type of a schema that states none, by what it says of the inside."""
    for key, kind in (("properties", "object"), ("items", "array")):
        if any(key in part for part in parts):
            return frozenset({kind})
    return frozenset()


def _choices(part: Mapping[str, Any]) -> list[str]:
    values = part.get("enum")
    values = values if isinstance(values, list) else []
    return [json.dumps(value, ensure_ascii=False) for value in (*values, *([part["const"]] if "const" in part else []))]
