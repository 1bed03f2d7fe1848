"""Benchmark prompts: jsonl lines `{"id", "category", "turns": [user text, ...]}`, of which the first turn is used, or
`{"id", "messages", "tools"}` for tool calls (category `tool_calls`)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from service.errors import ConfigError

DEFAULT_PROMPTS = Path(__file__).parents[3] / "shared" / "data" / "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One user message, or the last one of a chat `history`; with `tools`, one of them must be called."""

    id: str
    category: str
    text: str
    history: tuple[dict[str, str], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """As an OpenAI chat; the engine applies the model's chat template."""
        return [*self.history, {"role": "user", "content": self.text}]

    @property
    def params(self) -> dict[str, Any]:
        """What the request says beyond the messages."""
        return {"tools": list(self.tools), "tool_choice": "required"} if self.tools else {}


def load_prompts(path: Path, limit: int | None = None, categories: tuple[str, ...] = ()) -> list[Prompt]:
    """The first `limit` prompts, taken from all categories in turn; `categories` keeps only those named.

    Raises ConfigError for a missing file, a bad line, or when nothing is left.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"--prompts: cannot read {path}: {error.strerror}"]) from None
    prompts = [_parse(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    mixed = in_turn([p for p in prompts if not categories or p.category in categories])
    if not mixed:
        raise ConfigError([f"--prompts: {path} holds no prompts of the wanted categories"])
    return mixed[:limit]


def of_each_category(prompts: Sequence[Prompt], limit: int) -> list[Prompt]:
    """The first `limit` prompts of each category, in the given order."""
    taken: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        taken[prompt.category] += 1
        if taken[prompt.category] <= limit:
            chosen.append(prompt)
    return chosen


def in_turn(prompts: list[Prompt]) -> list[Prompt]:
    """The same prompts, one of each category, then the next of each: any beginning is a mixture."""
    by_category: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        by_category[prompt.category].append(prompt)
    rounds = zip_longest(*by_category.values())
    return [prompt for one in rounds for prompt in one if prompt is not None]


def _parse(path: Path, number: int, line: str) -> Prompt:
    try:
        fields = json.loads(line)
        if "messages" in fields:
            *history, last = fields["messages"]
            tools = tuple(fields["tools"])
            return Prompt(str(fields["id"]), "tool_calls", str(last["content"]), tuple(history), tools)
        return Prompt(str(fields["id"]), str(fields["category"]), str(fields["turns"][0]))
    except (ValueError, KeyError, IndexError, TypeError):
        kinds = '{"id", "category", "turns"} or {"id", "messages", "tools"}'
        raise ConfigError([f"--prompts: {path}:{number} is neither {kinds}"]) from None
