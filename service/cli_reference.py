"""Tables for README.md, made from the settings and the rules, so that they cannot rot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from service.errors import ConfigError
from service.profiles.algorithms import TRAITS, Source
from service.profiles.config import Config
from service.profiles.rules import check
from service.profiles.schema import Algorithm, Profile

_COLUMNS: dict[str, dict[str, dict[str, Any]]] = {
    "CPU": {"target": {"dtype": "float32"}},
    "CPU, bfloat16 KV": {"kv": {"dtype": "bfloat16"}},
    "CPU, tree (topk 2)": {"speculation": {"topk": 2}},
    "GPU": {"target": {"dtype": "bfloat16"}, "runtime": {"device": "cuda"}},
    "GPU, tree (topk 2)": {
        "target": {"dtype": "bfloat16"},
        "speculation": {"topk": 2},
        "runtime": {"device": "cuda"},
    },
    "GPU, fp8 KV": {
        "target": {"dtype": "bfloat16"},
        "kv": {"dtype": "fp8_e4m3"},
        "runtime": {"device": "cuda"},
    },
    "GPU, pages of 16": {
        "target": {"dtype": "bfloat16"},
        "kv": {"page_size": 16},
        "runtime": {"device": "cuda"},
    },
    "GPU, attention groups": {
        "target": {"dtype": "bfloat16"},
        "runtime": {"device": "cuda", "tp": 2, "attention_dp": 2},
    },
}
_DRAFTS: dict[Source, dict[str, Any]] = {"model": {"draft_model": "draft"}, "adapter": {"adapter": "adapter"}}


@dataclass(frozen=True)
class Row:
    """One setting: dotted name, default as text, description."""

    name: str
    default: str
    description: str


def settings_rows(model: type[BaseModel], prefix: str = "") -> Iterator[Row]:
    """Every leaf setting of a tree, depth first; lists of sections show their element's settings."""
    for name, field in model.model_fields.items():
        inner = _section(field)
        if inner is None:
            yield Row(prefix + name, _default(field), field.description or "")
        else:
            many = "[]" if inner is not field.annotation else ""
            yield from settings_rows(inner, f"{prefix}{name}{many}.")


def settings_table() -> str:
    """All settings as a Markdown table."""
    rows = [f"| `{row.name}` | {row.default} | {row.description} |" for row in settings_rows(Config)]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def combinations_table() -> str:
    """What the rules say about algorithms on devices, as a Markdown table."""
    rows = [
        f"| `{name}` | " + " | ".join(_verdict(name, sections) for sections in _COLUMNS.values()) + " |"
        for name in get_args(Algorithm)
    ]
    return "\n".join(["| algorithm | " + " | ".join(_COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|", *rows])


def rewrite(text: str) -> str:
    """Put fresh tables between the markers `<!-- NAME:begin -->` and `<!-- NAME:end -->` of a document.

    Raises ConfigError when a marker is missing.
    """
    for name, table in (("settings", settings_table()), ("combinations", combinations_table())):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        block = f"{begin}\n{table}\n{end}"
        pieces = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(pieces) != 2:
            raise ConfigError([f"the document must hold {begin} and {end} once"])
        text = block.join(pieces)
    return text


def rewrite_file(path: Path) -> None:
    """`rewrite` a file in place."""
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")


def _verdict(algorithm: Algorithm, sections: dict[str, dict[str, Any]]) -> str:
    draft = _DRAFTS.get(TRAITS[algorithm].source, {})
    speculation = {"algorithm": algorithm, **draft, **sections.get("speculation", {})}
    findings = check(Profile.model_validate({**sections, "speculation": speculation}))
    if any(finding.level == "error" for finding in findings):
        return "no"
    return "yes, warned" if findings else "yes"


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The section that a field holds, or its list's elements; an optional section counts as one setting."""
    elements = get_args(field.annotation) if get_origin(field.annotation) is tuple else ()
    for kind in (field.annotation, *elements):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "see meaning"
    if isinstance(field.default, tuple) and field.default:
        return f"`{', '.join(map(str, field.default))}`"
    return "none" if field.default in (None, (), {}) else f"`{field.default}`"
