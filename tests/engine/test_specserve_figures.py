"""The figures of a request against a hand count: the drafter replayed over the text that came out."""

from __future__ import annotations

from typing import Any

import pytest

from service.profiles.schema import Speculation
from service.speculation.drafters.prompt_lookup import PromptLookup
from tests.engine.host import Engine, chat_body, details, ids
from tests.engine.texts import CODE, REPEAT, STORY

WIDTH = Speculation().draft_tokens


def replay(prompt: list[int], output: list[int], max_tokens: int) -> list[tuple[int, int]]:
    """(proposed, accepted) of each decode step that must have led to `output`."""
    steps, done = [], 1
    while done < len(output):
        drafter = PromptLookup()
        drafter.observe(prompt + output[:done])
        budget = min(WIDTH - 1, max_tokens - done - 1)
        drafts = drafter.propose(budget).tokens if budget > 0 else ()
        accepted = 0
        while accepted < len(drafts) and done + accepted < len(output) and drafts[accepted] == output[done + accepted]:
            accepted += 1
        steps.append((len(drafts), accepted))
        done += accepted + 1
    return steps


def traced(trace: list[Any]) -> list[tuple[int, int]]:
    """The same, read from the per-token trace: the first token of a step has a list, further draft tokens a name."""
    steps: list[tuple[int, int]] = []
    for code in trace:
        if isinstance(code, list):
            steps.append((sum(code[0].values()), int(code[3] is not None)))
        elif isinstance(code, str):
            steps[-1] = (steps[-1][0], steps[-1][1] + 1)
    return steps


def counts(found: dict[str, Any]) -> dict[str, Any]:
    """The details without the seconds, which never repeat."""
    return {**found, "specserve": found["specserve"]["sources"]}


def prompt_of(engine: Engine, text: str) -> list[int]:
    answer = engine.chat(text, "off", max_tokens=1, return_prompt_token_ids=True)
    found: list[int] = answer["choices"][0]["prompt_token_ids"]
    return found


def dense(values: list[int]) -> list[int]:
    return [values.count(n) for n in range(max(values) + 1)] if values else []


def assert_figures(found: dict[str, Any], steps: list[tuple[int, int]]) -> None:
    verified = [step for step in steps if step[0] > 0]
    assert found["spec_verify_ct"] == len(verified)
    assert found["spec_num_proposed_drafts"] == sum(proposed for proposed, _ in steps)
    assert found["spec_num_correct_drafts"] == sum(accepted for _, accepted in steps)
    assert found["spec_correct_drafts_histogram"] == dense([accepted for _, accepted in verified])
    assert found["spec_cap_lens_histogram"] == dense([proposed for proposed, _ in steps])


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (REPEAT, {"max_tokens": 40}),
        (REPEAT, {"max_tokens": 60, "stop": ["lazy"]}),
        (REPEAT, {"max_tokens": 60, "stop": ["fox jumps"]}),
        (REPEAT, {"max_tokens": 7}),
        (CODE, {"max_tokens": 64}),
        (STORY, {"max_tokens": 48}),
    ],
    ids=["copy", "stop-at-a-word", "stop-at-two-words", "short", "code", "story"],
)
def test_figures_are_the_hand_count(specserve: Engine, text: str, fields: dict[str, Any]) -> None:
    prompt = prompt_of(specserve, text)
    answer = specserve.chat(text, "on", **fields)
    steps = replay(prompt, ids(answer), fields["max_tokens"])
    assert_figures(details(answer), steps)
    params = {"temperature": 0, "max_new_tokens": fields["max_tokens"], "stop": fields.get("stop", [])}
    raw = specserve.post("/generate", {"input_ids": prompt, "sampling_params": params})
    assert raw["output_ids"] == ids(answer)
    assert len(raw["meta_info"]["specserve_trace"]) == len(ids(answer))
    assert traced(raw["meta_info"]["specserve_trace"]) == steps


def test_a_stream_carries_the_same_figures(specserve: Engine) -> None:
    import httpx
    import orjson

    body = chat_body(REPEAT, "on", stream=True, stream_options={"include_usage": True}) | {"return_token_ids": False}
    found = []
    with httpx.stream("POST", f"{specserve.url}/v1/chat/completions", json=body, timeout=120) as response:
        for line in response.iter_lines():
            if line.startswith("data: {") and (event := orjson.loads(line[6:])).get("sglext"):
                found.append(event["sglext"]["spec_tokens_details"])
    assert [counts(one) for one in found] == [counts(details(specserve.chat(REPEAT, "on")))]


def test_nothing_is_learnt_from_the_request_before(specserve: Engine) -> None:
    text = "Recite: seven grey herons stand in the shallow water of the bay."
    first, second, third = [counts(details(specserve.chat(text, "on", max_tokens=64))) for _ in range(3)]
    assert first == second == third


def test_off_has_no_figures(specserve: Engine) -> None:
    answer = specserve.chat(REPEAT, "off")
    assert details(answer) is None
    params = {"temperature": 0, "max_new_tokens": 8, "custom_params": {"specserve": {"mode": "off"}}}
    raw = specserve.post("/generate", {"text": REPEAT, "sampling_params": params})
    assert not raw["meta_info"].get("specserve_trace")


def test_every_choice_has_its_own_figures(specserve: Engine) -> None:
    prompt = prompt_of(specserve, REPEAT)
    answer = specserve.chat(REPEAT, "on", n=2, temperature=0.7, seed=3, max_tokens=40)
    assert len(details(answer)) == 2
    for number in range(2):
        assert_figures(details(answer)[number], replay(prompt, ids(answer, number), 40))


def test_an_answer_of_one_token_was_not_speculated(specserve: Engine) -> None:
    assert details(specserve.chat(REPEAT, "on", max_tokens=1)) is None
