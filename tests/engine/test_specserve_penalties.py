"""Requests with penalties are drafted for and change nothing in the text."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.engine.conftest import Logits
from tests.engine.host import Engine, details, ids
from tests.engine.texts import CODE, REPEAT, VARIED

PENALTIES: list[dict[str, Any]] = [
    {"frequency_penalty": 0.4},
    {"presence_penalty": -0.7},
    {"repetition_penalty": 1.15},
    {"frequency_penalty": 0.2, "presence_penalty": 0.3, "repetition_penalty": 1.05, "min_tokens": 40},
]


@pytest.mark.parametrize("penalties", PENALTIES, ids=lambda penalties: "+".join(penalties))
def test_one_at_a_time(specserve: Engine, penalties: dict[str, Any]) -> None:
    accepted = 0
    for text in (REPEAT, CODE):
        on, off = [specserve.chat(text, mode, max_tokens=40, **penalties) for mode in ("on", "off")]
        assert ids(on) == ids(off)
        accepted += details(on)["spec_num_correct_drafts"]
    assert accepted > 0


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.8, "top_p": 0.9, "seed": 7}])
def test_beside_requests_without(specserve: Engine, sampling: dict[str, Any]) -> None:
    """Each request of a batch keeps its own counts, in whatever order steps commit several tokens."""
    wishes = [sampling | penalties for penalties in (*PENALTIES, {}, {})]
    texts = VARIED[: len(wishes)]
    alone = [specserve.chat(text, "off", **wish) for text, wish in zip(texts, wishes, strict=True)]
    with ThreadPoolExecutor(len(texts)) as pool:
        jobs = [pool.submit(specserve.chat, text, "on", **wish) for text, wish in zip(texts, wishes, strict=True)]
        together = [job.result() for job in jobs]
    assert [ids(answer) for answer in together] == [ids(answer) for answer in alone]
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in together[:4]) > 0


def test_a_text_may_not_end_early(specserve: Engine) -> None:
    answer = specserve.chat("What is the capital of France?", "on", max_tokens=80, min_tokens=60)
    assert answer["usage"]["completion_tokens"] >= 60
    assert details(answer)["spec_num_proposed_drafts"] > 0


def test_the_text_is_that_of_a_model_with_penalties(specserve: Engine, reference_logits: Logits) -> None:
    """Against transformers: argmax of the logits, penalised for what was generated before."""
    answer = specserve.chat(
        REPEAT, "on", max_tokens=48, frequency_penalty=0.3, presence_penalty=0.2, return_prompt_token_ids=True
    )
    tokens = ids(answer)
    rows = reference_logits(answer["choices"][0]["prompt_token_ids"], tokens)
    for place, row in enumerate(rows):
        for token, count in Counter(tokens[:place]).items():
            row[token] -= 0.3 * count + 0.2
    assert tokens == rows.argmax(-1).tolist()
    assert details(answer)["spec_num_correct_drafts"] > 0
