"""What the users say, from the public prompt sets: never made up, chosen by a seed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

FOLDER = Path(__file__).parents[2] / "shared" / "data"
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "chat": ("qa", "translation", "writing", "roleplay", "reasoning", "math", "stem", "humanities", "math_reasoning"),
    "rag": ("rag",),
    "summarize": ("summarization",),
    "code": ("code_completion", "coding"),
}


@dataclass(frozen=True, slots=True)
class Task:
    """The user's turns of one conversation, with the tools that it may use."""

    id: str
    turns: tuple[str, ...]
    system: str | None = None
    tools: tuple[dict[str, Any], ...] = ()


class PromptBook:
    """Tasks by traffic kind. `tools` and `agent` come from the tool-call set."""

    def __init__(self, tasks: Mapping[str, Sequence[Task]]) -> None:
        self._tasks = {kind: list(those) for kind, those in tasks.items()}

    @classmethod
    def read(cls, folder: Path = FOLDER) -> PromptBook:
        """`prompts.jsonl` and `tool_calls.jsonl` of the folder. Raises OSError and ValueError, naming the file."""
        found: dict[str, list[Task]] = defaultdict(list)
        kinds = {category: kind for kind, those in CATEGORIES.items() for category in those}
        for line in _lines(folder / "prompts.jsonl"):
            kind = kinds.get(line["category"])
            if kind is not None:
                found[kind].append(Task(line["id"], tuple(line["turns"])))
        for line in _lines(folder / "tool_calls.jsonl"):
            system = next((m["content"] for m in line["messages"] if m["role"] == "system"), None)
            turns = tuple(m["content"] for m in line["messages"] if m["role"] == "user")
            found["tools"].append(Task(line["id"], turns, system, tuple(line["tools"])))
        return cls(found)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that have tasks."""
        return tuple(kind for kind, tasks in self._tasks.items() if tasks)

    def pick(self, kind: str, random: Random) -> Task:
        """One task of that kind. Raises KeyError when there is none."""
        return random.choice(self._tasks[kind])


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number} is no JSON: {error}") from None
    return lines
