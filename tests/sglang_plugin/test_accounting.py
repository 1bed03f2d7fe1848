"""Counts of decode steps, against counts made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from service.sglang_plugin.accounting import count_real_nodes, report_real_nodes, trace_steps  # noqa: E402
from service.sglang_plugin.trace import TRACE_KEY, StepTrace, decode_trace, encode_step  # noqa: E402


def request(output: list[int], mode: str | None = None, *, over: bool = False, retracted: bool = False) -> Any:
    params = SimpleNamespace(custom_params=None if mode is None else {"specserve": {"mode": mode}})
    return SimpleNamespace(
        output_ids=output,
        sampling_params=params,
        customized_info=None,
        is_retracted=retracted,
        finished=lambda: over,
    )


def batch_of(*reqs: Any, algorithm: str = "SPECSERVE") -> Any:
    return SimpleNamespace(reqs=list(reqs), spec_algorithm=SimpleNamespace(name=algorithm))


def figures(trace: list[Any]) -> tuple[tuple[int, int], ...]:
    """(proposed, accepted) of each step."""
    counts = decode_trace(trace)
    assert counts is not None
    return tuple((step.proposed, step.accepted) for step in counts.steps)


def step(batch: Any, tokens: list[list[int]], proposed: list[int] | None, width: int = 8) -> None:
    """One decode step as the scheduler does it: the hook sees the tokens, then they join the output."""
    caps = None if proposed is None else torch.tensor(proposed)
    result = SimpleNamespace(speculative_num_draft_tokens=width, cap_lens=caps)
    assert trace_steps(tokens, None, result, batch) is tokens
    for req, accepted in zip(batch.reqs, tokens, strict=True):
        if not req.finished():
            req.output_ids.extend(accepted)


def test_three_steps_of_one_request_by_hand() -> None:
    req = request([50])  # the prefill's token
    batch = batch_of(req)
    step(batch, [[51, 52, 53]], [5])  # 5 proposed, 2 accepted, 1 bonus
    step(batch, [[54]], [0])  # nothing proposed
    step(batch, [[55]], [3])  # 3 proposed, none accepted
    trace = req.customized_info[TRACE_KEY]
    assert len(trace) == len(req.output_ids)
    assert figures(trace) == ((5, 2), (0, 0), (3, 0))
    # The text ends at token 52: the second accepted draft is the stop, the bonus never counts.
    assert figures(trace[:3]) == ((5, 2),)
    assert figures(trace[:2]) == ((5, 1),)


def test_a_token_from_a_second_prefill_keeps_the_trace_in_step() -> None:
    req = request([50])
    step(batch_of(req), [[51, 52]], [4])
    req.output_ids.append(53)  # retracted and prefilled again
    step(batch_of(req), [[54]], [2])
    first, second = StepTrace({"specserve": 4}, ("specserve",)), StepTrace({"specserve": 2}, ())
    assert req.customized_info[TRACE_KEY] == [0, *encode_step(first), 0, *encode_step(second)]


def test_the_workers_own_account_is_taken_and_cut_where_a_grammar_ended() -> None:
    req = request([50])
    own = StepTrace({"scaffold": 3, "copy": 1}, ("scaffold", "scaffold", "copy"), 0.001, 0.03)
    result = SimpleNamespace(speculative_num_draft_tokens=8, cap_lens=None, specserve_steps=[own])
    trace_steps([[51, 52]], None, result, batch_of(req))
    assert req.customized_info[TRACE_KEY] == [0, *encode_step(own)[:2]]


def test_requests_told_off_finished_or_retracted_carry_nothing() -> None:
    reqs = [request([1], "off"), request([1], over=True), request([1], retracted=True), request([1], "on")]
    step(batch_of(*reqs), [[2], [3], [4], [5, 6]], [0, 2, 2, 2])
    assert [req.customized_info is None for req in reqs] == [True, True, True, False]


def test_other_algorithms_do_not_know_the_mode_and_fill_their_width() -> None:
    req = request([1], "off")
    step(batch_of(req, algorithm="STANDALONE"), [[2, 3]], None, width=4)
    assert figures(req.customized_info[TRACE_KEY]) == ((3, 1),)


def test_padding_of_ngram_trees_is_not_proposed() -> None:
    # Two trees of five nodes: a chain of two drafts with two pads, and a full fork without any.
    masks = np.zeros((2, 5, 5), dtype=bool)
    for tree, parents in enumerate(([-1, 0, 1, 0, 0], [-1, 0, 0, 1, 2])):
        for node, parent in enumerate(parents):
            if parent >= 0:
                masks[tree, node] = masks[tree, parent]
            masks[tree, node, node] = True
    tokens = np.array([7, 11, 0, 0, 0, 9, 0, 12, 13, 14])
    batch, worker = batch_of(request([1]), request([1])), SimpleNamespace()
    count_real_nodes((tokens, masks.reshape(-1)), worker, batch)
    assert worker.specserve_proposed == [2, 4]

    result = SimpleNamespace(cap_lens=None)
    batch.forward_mode = SimpleNamespace(is_decode=lambda: False)
    report_real_nodes(result, worker, batch)
    assert result.cap_lens is None
    batch.forward_mode = SimpleNamespace(is_decode=lambda: True)
    report_real_nodes(result, worker, batch)
    assert result.cap_lens.tolist() == [2, 4]
