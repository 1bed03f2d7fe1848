"""SPECSERVE gives the tokens of plain decoding, and plain decoding those of the reference implementation."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Logits
from tests.engine.host import Engine, details, ids
from tests.engine.texts import LONG, REPEAT, STORY, VARIED


def test_drafts_change_no_token(specserve: Engine, plain_ids: list[list[int]]) -> None:
    answers = [specserve.chat(text, "on", max_tokens=64) for text in VARIED]
    assert [ids(answer) for answer in answers] == plain_ids
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in answers) > 50


def test_neighbours_with_and_without_drafts_change_no_token(specserve: Engine, plain_ids: list[list[int]]) -> None:
    answers = specserve.chats(VARIED, ["on", "off"], max_tokens=64)
    assert [ids(answer) for answer in answers] == plain_ids
    assert all(details(answer) is not None for answer in answers[0::2])
    assert all(details(answer) is None for answer in answers[1::2])


@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_prompt_in_pieces_and_a_cached_one(specserve: Engine, mode: str) -> None:
    specserve.flush()
    cold, warm = [specserve.chat(LONG, mode, max_tokens=32) for _ in range(2)]
    assert cold["usage"]["prompt_tokens"] > 2 * 256
    assert (cold["usage"]["prompt_tokens_details"] or {}).get("cached_tokens", 0) == 0
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 512
    assert ids(warm) == ids(cold)


def test_plain_decoding_equals_transformers(specserve: Engine, reference_logits: Logits) -> None:
    for text in (REPEAT, STORY, LONG):
        answer = specserve.chat(text, "off", return_prompt_token_ids=True)
        logits = reference_logits(answer["choices"][0]["prompt_token_ids"], ids(answer))
        assert ids(answer) == logits.argmax(-1).tolist()
