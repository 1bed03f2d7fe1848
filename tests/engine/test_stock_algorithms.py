"""SGLang's own algorithms on our CPU operators: the tokens of plain decoding. Runs behind the SPECSERVE tests."""

from __future__ import annotations

from tests.engine.host import Engine, details, ids
from tests.engine.texts import REPEAT, VARIED


def test_ngram_changes_no_token(ngram: Engine, plain_ids: list[list[int]]) -> None:
    one_by_one = [ngram.chat(text, max_tokens=64) for text in VARIED[:3]]
    together = ngram.chats(VARIED[3:], [None], max_tokens=64)
    assert [ids(answer) for answer in one_by_one + together] == plain_ids


def test_ngram_draws_equal_texts_for_equal_seeds(ngram: Engine) -> None:
    first, second = [ngram.chat(REPEAT, temperature=1.0, seed=4) for _ in range(2)]
    assert ids(first) == ids(second)
    # The corpus has seen the first text, so the second is drafted for, and accepted as drawn.
    assert details(second)["spec_num_correct_drafts"] > details(first)["spec_num_correct_drafts"]


def test_a_draft_model_changes_no_token(standalone: Engine, plain_ids: list[list[int]]) -> None:
    one_by_one = [standalone.chat(text, max_tokens=64) for text in VARIED[:2]]
    together = standalone.chats(VARIED[2:], [None], max_tokens=64)
    assert [ids(answer) for answer in one_by_one + together] == plain_ids
    assert sum(details(answer)["spec_num_correct_drafts"] for answer in one_by_one) > 10


def test_a_draft_model_draws_equal_texts_for_equal_seeds(standalone: Engine) -> None:
    first, second = [standalone.chat(REPEAT, temperature=1.0, seed=4) for _ in range(2)]
    assert ids(first) == ids(second)
    assert details(first)["spec_num_correct_drafts"] > 0
