"""Forced answers, on stand-ins for SGLang's objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from service.kvcache.answer_keys import BEST_KEY, LOGPROB_KEY
from service.sglang_plugin.teacher import force_tokens, is_teaching


def request(output: list[int], forced: object = None, end: int = 4) -> Any:
    params = SimpleNamespace(custom_params={"specserve": {"forced": forced}} if forced is not None else None)
    return SimpleNamespace(
        sampling_params=params,
        output_ids=output,
        extend_end=end,
        full_untruncated_fill_ids=[0] * 4,
        customized_info=None,
    )


def forced(reqs: list[Any], *, extend: bool = False) -> list[int]:
    logits = torch.tensor([[0.0, 1.0, 3.0]] * len(reqs))
    result: Any = SimpleNamespace(
        next_token_ids=torch.full((len(reqs),), 2), logits_output=SimpleNamespace(next_token_logits=logits)
    )
    batch: Any = SimpleNamespace(reqs=reqs, forward_mode=SimpleNamespace(is_extend=lambda: extend))
    force_tokens(result, None, batch)
    tokens: list[int] = result.next_token_ids.tolist()
    return tokens


def test_each_request_gets_its_own_next_token() -> None:
    reqs = [request([], [1, 2]), request([1], [1, 2]), request([]), request([1, 2], [1, 2])]
    assert forced(reqs) == [1, 2, 2, 2]
    expected = torch.tensor([0.0, 1.0, 3.0]).log_softmax(0)
    assert reqs[0].customized_info[LOGPROB_KEY] == [pytest.approx(float(expected[1]))]
    assert reqs[0].customized_info[BEST_KEY] == [0]
    assert reqs[1].customized_info == {LOGPROB_KEY: [pytest.approx(float(expected[2]))], BEST_KEY: [1]}
    assert reqs[2].customized_info is None and reqs[3].customized_info is None


def test_a_piece_of_a_prompt_has_no_answer_yet() -> None:
    reqs = [request([], [1], end=3), request([], [1], end=4)]
    assert forced(reqs, extend=True) == [2, 1]
    assert reqs[0].customized_info is None


def test_only_engines_started_for_it_teach() -> None:
    assert is_teaching({"SPECSERVE_TEACHER": "1"}) and not is_teaching({})
