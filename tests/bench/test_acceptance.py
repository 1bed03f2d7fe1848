"""Rows of the acceptance bench, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.bench.acceptance import Field, acceptance_rows
from service.bench.client import Timing
from service.bench.prompts import Prompt, load_prompts, of_each_category
from service.bench.throughput import Rates
from service.errors import ConfigError


def details(histogram: list[int], proposed: int, sources: dict[str, Any] | None = None) -> dict[str, Any]:
    accepted = sum(k * count for k, count in enumerate(histogram))
    found: dict[str, Any] = {
        "spec_num_proposed_drafts": proposed,
        "spec_num_correct_drafts": accepted,
        "spec_correct_drafts_histogram": histogram,
    }
    if sources is not None:
        found["specserve"] = {"sources": sources, "draft_s": 0.01, "verify_s": 1.0}
    return found


def timing(tokens: int, seconds: float, found: dict[str, Any] | None = None) -> Timing:
    return Timing(0.5, 0.5 + seconds, tokens, None, None, found)


def test_one_category_by_hand() -> None:
    copy = {"copy": {"proposed": 8, "accepted": 5, "accepted_per_position": [2, 2, 1]}}
    rates = Rates(
        "rag",
        {
            "plain": [timing(11, 1.0), timing(11, 1.0)],
            # 10 tokens behind the prefill's in 5 steps: 2 verify steps accept 2 and 3, three plain ones.
            "suffix": [timing(11, 0.5, details([0, 0, 1, 1], 8, copy)), timing(11, 1.0, details([2], 6, {}))],
        },
    )
    plain, suffix = acceptance_rows([rates])
    assert plain["speedup"] is None and plain["tokens_per_step"] is None and plain["accepted_drafts"] is None
    assert suffix["tokens_per_step"] == pytest.approx(20 / 15)
    assert suffix["acceptance_rate"] == pytest.approx(5 / 14)
    assert suffix["accepted_per_position"] == [2, 2, 1]
    assert suffix["by_source"] == {"copy": {"proposed": 8, "accepted": 5}}
    assert suffix["speedup"] == pytest.approx(1.5)
    assert suffix["draft_ms_per_step"] == pytest.approx(20 / 15)


def test_the_field_is_one_engine_for_all_drafters_and_one_for_each_controller() -> None:
    engines = Field(("prompt_lookup", "suffix"), (("fixed",),), 8, {}).engines()
    assert list(engines) == ["plain", "ngram", "drafters", "fixed"]
    assert engines["drafters"].drafters == ("prompt_lookup", "suffix")
    assert engines["ngram"].draft_tokens == engines["drafters"].draft_tokens == 8
    assert "ngram" not in Field(("suffix",), (), 8, {}, ngram=False).engines()


def test_tool_prompts_carry_their_tools(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    path = tmp_path / "tools.jsonl"
    path.write_text(json.dumps({"id": "1", "messages": messages, "tools": tools}) + "\n")
    (prompt,) = load_prompts(path)
    assert (prompt.category, prompt.messages) == ("tool_calls", messages)
    assert prompt.params == {"tools": tools, "tool_choice": "required"}


def test_a_line_of_neither_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "1"}\n')
    with pytest.raises(ConfigError, match="bad.jsonl:1"):
        load_prompts(path)


def test_some_of_each_category() -> None:
    prompts = [Prompt(str(i), category, "t") for i, category in enumerate("aabab")]
    assert [prompt.id for prompt in of_each_category(prompts, 2)] == ["0", "1", "2", "4"]
