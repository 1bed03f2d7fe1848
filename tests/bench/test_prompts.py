from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.bench.prompts import load_prompts
from service.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")]
    path.write_text("".join(json.dumps({"id": i, "category": c, "turns": [f"text {i}", "x"]}) + "\n" for i, c in rows))
    return path


def test_categories_take_turns(file: Path) -> None:
    assert [prompt.id for prompt in load_prompts(file)] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert [prompt.id for prompt in load_prompts(file, limit=4)] == ["a1", "b1", "c1", "a2"]


def test_the_first_turn_is_the_message(file: Path) -> None:
    assert load_prompts(file)[0].messages == [{"role": "user", "content": "text a1"}]


def test_only_wanted_categories(file: Path) -> None:
    assert {prompt.category for prompt in load_prompts(file, categories=("b", "c"))} == {"b", "c"}


@pytest.mark.parametrize("line", ["{", '{"id": 1}', '{"id": 1, "category": "a", "turns": []}', "[]"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(ConfigError, match=r"bad\.jsonl:2"):
        load_prompts(path)


def test_a_missing_file_and_an_empty_choice(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_prompts(tmp_path / "absent")
    with pytest.raises(ConfigError, match="no prompts"):
        load_prompts(file, categories=("z",))
