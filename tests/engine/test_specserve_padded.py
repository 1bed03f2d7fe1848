"""Verify batches as GPUs run them, padded to one width, on the CPU: they change no token either."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.conftest import profile
from tests.engine.host import Engine, EngineHost, details, ids
from tests.engine.texts import VARIED

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FIELDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "penalties": {"frequency_penalty": 0.4, "presence_penalty": 0.2},
    "sampled": {"temperature": 0.8, "top_p": 0.9, "seed": 7},
    "json schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}},
}


@pytest.fixture
def padded(plain_ids: list[list[int]], host: EngineHost) -> Engine:
    """Goose's trees, in padded batches. Behind `plain_ids`, whose engine then need not start twice."""
    return host.use("padded", profile(algorithm="specserve", drafter="goose", controllers=("fixed",)), layout="padded")


def test_the_tokens_are_those_of_ragged_batches(padded: Engine, plain_ids: list[list[int]]) -> None:
    answers = padded.chats(VARIED[:4], ["on", "off"], max_tokens=64)
    assert [ids(answer) for answer in answers] == plain_ids[:4]
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in answers[0::2]) > 5


@pytest.mark.parametrize("kind", FIELDS)
def test_drafts_change_nothing(kind: str, padded: Engine) -> None:
    plain, drafted = (padded.chats(VARIED[4:6], [mode], max_tokens=32, **FIELDS[kind]) for mode in ("off", "on"))
    assert [ids(answer) for answer in drafted] == [ids(answer) for answer in plain]
    assert all(details(answer) is not None for answer in drafted)
    if kind == "logprobs":
        chances = [
            [[t["logprob"] for t in answer["choices"][0]["logprobs"]["content"]] for answer in batch]
            for batch in (plain, drafted)
        ]
        assert chances[1][0] == pytest.approx(chances[0][0], abs=1e-4)
