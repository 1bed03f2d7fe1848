"""Structured output, logprobs, stops and aborts under speculation."""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import Any

import pytest

from tests.engine.host import Engine, details, ids, wait_until
from tests.engine.texts import REPEAT, STORY

SCHEMA = {
    "type": "object",
    "properties": {
        "animals": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 3, "maxItems": 3},
        "count": {"type": "integer"},
    },
    "required": ["animals", "count"],
    "additionalProperties": False,
}


def test_json_schema(specserve: Engine) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "zoo", "schema": SCHEMA}}
    text = 'Three animals as JSON, like {"animals": ["cat", "dog", "cat"], "count": 3}.'
    on, off = [specserve.chat(text, mode, response_format=wanted, max_tokens=96) for mode in ("on", "off")]
    assert ids(on) == ids(off)
    answer = json.loads(on["choices"][0]["message"]["content"])
    assert len(answer["animals"]) == 3 and isinstance(answer["count"], int)
    assert details(on)["spec_num_correct_drafts"] > 0


def test_logprobs(specserve: Engine) -> None:
    on, off = [specserve.chat(REPEAT, mode, logprobs=True, top_logprobs=3) for mode in ("on", "off")]
    drafted, plain = [answer["choices"][0]["logprobs"]["content"] for answer in (on, off)]
    assert len(drafted) == on["usage"]["completion_tokens"] == len(ids(on))
    assert [entry["token"] for entry in drafted] == [entry["token"] for entry in plain]
    for one, other in zip(drafted, plain, strict=True):
        assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-4)
        assert [top["token"] for top in one["top_logprobs"]] == [top["token"] for top in other["top_logprobs"]]
        pairs = zip(one["top_logprobs"], other["top_logprobs"], strict=True)
        assert all(a["logprob"] == pytest.approx(b["logprob"], abs=1e-4) for a, b in pairs)
    assert details(on)["spec_num_correct_drafts"] > 0


@pytest.mark.parametrize("stop", ["lazy", "fox jumps", "over the"])
def test_a_stop_inside_a_draft(specserve: Engine, stop: str) -> None:
    on, off = [specserve.chat(REPEAT, mode, stop=[stop], max_tokens=60) for mode in ("on", "off")]
    assert on["choices"][0]["finish_reason"] == off["choices"][0]["finish_reason"] == "stop"
    assert on["choices"][0]["message"]["content"] == off["choices"][0]["message"]["content"]
    assert stop not in on["choices"][0]["message"]["content"]
    assert on["usage"]["completion_tokens"] == off["usage"]["completion_tokens"]


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_the_length_is_kept(specserve: Engine, length: int) -> None:
    answer = specserve.chat(REPEAT, "on", max_tokens=length, ignore_eos=True)
    assert len(ids(answer)) == answer["usage"]["completion_tokens"] == length
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("choices", [1, 2])
def test_an_abort_ends_every_choice(specserve: Engine, choices: int) -> None:
    rid, answers = uuid.uuid4().hex, list[dict[str, Any]]()

    def ask() -> None:
        fields = {"rid": rid, "n": choices, "max_tokens": 1900, "ignore_eos": True}
        answers.append(specserve.chat(STORY, "on", **fields))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: specserve.running() == choices, 30)
    time.sleep(0.5)
    aborted = time.monotonic()
    specserve_abort(specserve, rid)
    asking.join(10)
    assert time.monotonic() - aborted < 5
    assert [choice["finish_reason"] for choice in answers[0]["choices"]] == ["abort"] * choices
    assert specserve.running() == 0
    specserve.flush()
    assert ids(specserve.chat(REPEAT, "on", max_tokens=4))


def specserve_abort(engine: Engine, rid: str) -> None:
    import httpx

    assert httpx.post(f"{engine.url}/abort_request", json={"rid": rid}, timeout=10).status_code == 200


@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_request_that_fills_its_context(specserve: Engine, mode: str) -> None:
    """The last steps' drafts reach behind the context; nothing is written there and nothing is lost."""
    body = {
        "input_ids": [1000 + i % 20 for i in range(1960)],
        "sampling_params": {
            "temperature": 0,
            "max_new_tokens": 2048 - 1960,
            "ignore_eos": True,
            "custom_params": {"specserve": {"mode": mode}},
        },
    }
    answer = specserve.post("/generate", body)
    # SGLang keeps a few places free behind the text; the context is full all the same.
    assert 2048 - 8 <= answer["meta_info"]["prompt_tokens"] + answer["meta_info"]["completion_tokens"] <= 2048
    assert specserve.chat("What is the capital of France?")["choices"][0]["finish_reason"] == "stop"
