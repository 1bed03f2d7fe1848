"""Every drafter and controller on the real engine: the tokens of plain decoding, and an honest account."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from service.bench.cli import MODEL_FREE
from service.bench.models import MODEL_DRAFTERS
from tests.engine.conftest import profile
from tests.engine.host import Engine, EngineHost, chat_body, details, ids
from tests.engine.texts import CODE, REPEAT, STORY, VARIED

ALL = (*MODEL_FREE, *MODEL_DRAFTERS, "bench_widths")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["n", "ok"],
}
KINDS: dict[str, dict[str, Any]] = {
    "sampled": {"temperature": 0.8, "top_p": 0.9, "seed": 3},
    "json": {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
    "tools": {"tools": [TOOL], "tool_choice": "required"},
}


@pytest.fixture
def drafters(host: EngineHost) -> Engine:
    """One engine with all drafters; the draft model is the target itself, and pard's mask any token."""
    options = {
        "draft_model": {"model": str(host.target), "depth": 4},
        "pard": {"model": str(host.target), "mask_token": 0, "depth": 3},
        "layer_skip": {"min_confidence": 0.0, "depth": 3},
    }
    return host.use(
        "drafters", profile(algorithm="specserve", drafters=ALL, controllers=("fixed",), drafter_options=options)
    )


@pytest.fixture(scope="module")
def plain_kinds() -> dict[str, list[int]]:
    """Answers without drafts by kind, filled by the tests."""
    return {}


@pytest.fixture
def controlled(host: EngineHost) -> Engine:
    """One engine whose drafter and budget are chosen by controllers, and whose requests learn from each other."""
    chosen = ("ngram_corpus", "suffix", "goose")
    names = ("roofline", "dcut", "hedge")
    return host.use("controlled", profile(algorithm="specserve", drafters=chosen, controllers=names, sharing="pool"))


def wish(drafter: str, mode: str = "on") -> dict[str, Any]:
    return {"custom_params": {"specserve": {"mode": mode, "drafter": drafter}}}


@pytest.mark.parametrize("drafter", ALL)
def test_greedy_texts_are_those_of_plain_decoding(drafters: Engine, plain_ids: list[list[int]], drafter: str) -> None:
    assert VARIED[:3] == [REPEAT, STORY, CODE]
    count = 1 if drafter in MODEL_DRAFTERS else 3
    answers = [drafters.chat(text, **wish(drafter), max_tokens=64) for text in VARIED[:count]]
    assert [ids(answer) for answer in answers] == plain_ids[:count]


@pytest.mark.parametrize(
    ("drafter", "kind"), [*product(MODEL_FREE, KINDS), *((drafter, "sampled") for drafter in MODEL_DRAFTERS)]
)
def test_other_requests_are_those_of_plain_decoding(
    drafters: Engine, plain_kinds: dict[str, list[int]], drafter: str, kind: str
) -> None:
    fields = {**KINDS[kind], "max_tokens": 24}
    if kind not in plain_kinds:
        plain_kinds[kind] = ids(drafters.chat(STORY, "off", **fields))
    assert ids(drafters.chat(STORY, **wish(drafter), **fields)) == plain_kinds[kind]


def test_drafters_side_by_side_in_one_batch(drafters: Engine, plain_ids: list[list[int]]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(drafters.chat, text, **wish(MODEL_FREE[i % len(MODEL_FREE)]), max_tokens=64)
            for i, text in enumerate(VARIED)
        ]
        assert [ids(job.result()) for job in jobs] == plain_ids


@pytest.mark.parametrize("drawn", [{}, {"temperature": 0.8, "seed": 3}], ids=["greedy", "sampled"])
def test_the_target_as_its_own_draft_model_is_always_right(drafters: Engine, drawn: dict[str, Any]) -> None:
    for text in (REPEAT, STORY):
        told = details(drafters.chat(text, **wish("draft_model"), max_tokens=41, ignore_eos=True, **drawn))
        # The last step may be cut at the length that was asked for.
        assert told["spec_num_proposed_drafts"] - told["spec_num_correct_drafts"] <= 4
        # Sampled chains end where the text is unsure, and drafts are fewer.
        assert told["spec_num_correct_drafts"] >= (10 if drawn else 28)


def test_a_drafter_that_is_always_wrong_gains_nothing(drafters: Engine) -> None:
    told = details(drafters.chat(STORY, **wish("bench_widths")))
    assert told["spec_num_proposed_drafts"] > 0 and told["spec_num_correct_drafts"] == 0


def test_sources_positions_and_seconds_are_told(drafters: Engine) -> None:
    told = details(drafters.chat(REPEAT, **wish("suffix")))
    own = told["specserve"]
    assert sum(source["proposed"] for source in own["sources"].values()) == told["spec_num_proposed_drafts"]
    assert sum(source["accepted"] for source in own["sources"].values()) == told["spec_num_correct_drafts"] > 0
    histogram = told["spec_correct_drafts_histogram"]
    positions = [sum(histogram[p + 1 :]) for p in range(len(histogram) - 1)]
    assert own["sources"]["suffix"]["accepted_per_position"] == positions
    assert own["draft_s"] > 0 and own["verify_s"] > own["draft_s"]


def test_a_drafter_that_is_not_there_is_refused(drafters: Engine) -> None:
    import httpx

    body = chat_body(STORY, None, **wish("magic"))
    answer = httpx.post(f"{drafters.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert "'magic' is not offered" in answer.text and "prompt_lookup" in answer.text


def test_controllers_change_no_token(controlled: Engine, plain_ids: list[list[int]]) -> None:
    for modes in (["auto"], ["auto", "on", "off"]):
        found = []
        for start in range(0, len(VARIED), 4):
            found += controlled.chats(VARIED[start : start + 4], modes, max_tokens=64)
        assert [ids(answer) for answer in found] == plain_ids


def test_on_is_not_overruled_by_controllers(controlled: Engine) -> None:
    assert details(controlled.chat(REPEAT, "on"))["spec_num_proposed_drafts"] > 0


def test_requests_of_a_shared_pool_learn_from_each_other(controlled: Engine) -> None:
    controlled.flush()
    first, second = [controlled.chat(STORY, **wish("ngram_corpus"), max_tokens=64) for _ in range(2)]
    assert ids(first) == ids(second)
    assert details(second)["spec_num_correct_drafts"] > details(first)["spec_num_correct_drafts"] + 20
    controlled.flush()
    third = controlled.chat(STORY, **wish("ngram_corpus"), max_tokens=64)
    assert details(third)["spec_num_correct_drafts"] == details(first)["spec_num_correct_drafts"]
