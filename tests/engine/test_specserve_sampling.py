"""Sampled requests: what is drawn depends on the seed, never on the drafts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.conftest import Logits
from tests.engine.host import Engine, details, ids
from tests.engine.texts import CODE, REPEAT, STORY

FILTERS: list[dict[str, Any]] = [{}, {"top_p": 0.8}, {"top_k": 20}, {"min_p": 0.1}, {"top_p": 0.9, "min_p": 0.05}]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_equal_seeds_draw_equal_texts(specserve: Engine, filters: dict[str, Any]) -> None:
    for seed, text in enumerate((REPEAT, CODE)):
        on, off = [specserve.chat(text, mode, temperature=1.0, seed=seed, **filters) for mode in ("on", "off")]
        assert ids(on) == ids(off)
        assert details(on)["spec_num_proposed_drafts"] > 0


def test_equal_seeds_among_busy_neighbours(specserve: Engine) -> None:
    texts = [REPEAT, STORY, CODE, REPEAT]
    alone = [specserve.chat(text, "off", temperature=0.8, seed=11) for text in texts[:3]]
    together = specserve.chats(texts, ["on", "off", "on", "on"], temperature=0.8, seed=11)
    assert [ids(answer) for answer in together[:3]] == [ids(answer) for answer in alone]
    assert ids(together[3]) == ids(together[0])


def test_choices_differ_and_repeat(specserve: Engine) -> None:
    on, again, off = [
        specserve.chat(STORY, mode, temperature=1.0, seed=5, n=3, max_tokens=24) for mode in ("on", "on", "off")
    ]
    choices = [ids(on, number) for number in range(3)]
    assert len({tuple(choice) for choice in choices}) == 3
    assert choices == [ids(again, number) for number in range(3)] == [ids(off, number) for number in range(3)]
    assert len(details(on)) == 3


def test_without_a_seed_texts_differ(specserve: Engine) -> None:
    drawn = {tuple(ids(specserve.chat(STORY, "on", temperature=1.0, max_tokens=24))) for _ in range(4)}
    assert len(drawn) == 4


def test_later_tokens_are_drawn_too(specserve: Engine) -> None:
    """SGLang's own CPU path turns every token behind the first greedy."""
    answers = [specserve.chat(REPEAT, "on", temperature=1.5, max_tokens=16, n=4) for _ in range(2)]
    drawn = [tuple(ids(answer, number)) for answer in answers for number in range(4)]
    prompt = specserve.chat(REPEAT, "on", max_tokens=1, return_prompt_token_ids=True)["choices"][0]["prompt_token_ids"]
    greedy = 0
    for tokens in drawn:
        params = {"temperature": 0, "max_new_tokens": len(tokens) - 1}
        rest = specserve.post("/generate", {"input_ids": [*prompt, tokens[0]], "sampling_params": params})
        greedy += list(tokens[1:]) == rest["output_ids"]
    assert greedy < len(drawn) / 2


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 1.5}, {"presence_penalty": 2.0}, {"repetition_penalty": 1.2}], ids=str
)
def test_penalties_are_as_defined(specserve: Engine, penalty: dict[str, float], reference_logits: Logits) -> None:
    on, off = [specserve.chat(STORY, mode, return_prompt_token_ids=True, **penalty) for mode in ("on", "off")]
    assert ids(on) == ids(off)
    logits = reference_logits(on["choices"][0]["prompt_token_ids"], ids(on))
    penalised = [
        int(penalise(row, ids(on)[:position], **penalty).argmax()) for position, row in enumerate(logits.unbind())
    ]
    assert ids(on) == penalised
    assert ids(on) != logits.argmax(-1).tolist()


def penalise(
    logits: Any,
    before: list[int],
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    repetition_penalty: float = 1.0,
) -> Any:
    """OpenAI's and Hugging Face's penalties of the answer's earlier tokens, by definition."""
    logits = logits.clone()
    for token in set(before):
        logits[token] -= frequency_penalty * before.count(token) + presence_penalty
        logits[token] *= repetition_penalty if logits[token] < 0 else 1 / repetition_penalty
    return logits


def test_a_bias_acts_as_without_drafts(specserve: Engine) -> None:
    usual = ids(specserve.chat(REPEAT, "off"))
    bias = {str(usual[3]): -100}
    on, off = [specserve.chat(REPEAT, mode, logit_bias=bias) for mode in ("on", "off")]
    assert ids(on) == ids(off)
    assert usual[3] not in ids(on)
