"""Benchmark prompts: jsonl lines `{"id", "category", "turns": [user text, ...]}`; the first turn is used."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from service.errors import ConfigError

DEFAULT_PROMPTS = Path(__file__).parents[3] / "shared" / "data" / "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One user message."""

    id: str
    category: str
    text: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """As an OpenAI chat; the engine applies the model's chat template."""
        return [{"role": "user", "content": self.text}]


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
        return Prompt(str(fields["id"]), str(fields["category"]), str(fields["turns"][0]))
    except (json.JSONDecodeError, KeyError, IndexError, TypeError):
        raise ConfigError([f'--prompts: {path}:{number} is not {{"id", "category", "turns"}}']) from None
