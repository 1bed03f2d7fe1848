"""What each decode step of each request really proposed and got accepted, for SGLang's algorithms and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from service.sglang_plugin.request_extras import extras_of, mode_of
from service.sglang_plugin.trace import TRACE_KEY, StepTrace, encode_step

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.managers.utils import GenerationBatchResult


def trace_steps(
    tokens: list[list[int]], processor: Any, result: GenerationBatchResult, batch: ScheduleBatch
) -> list[list[int]]:
    """After hook of SGLang's `_resolve_spec_v2_tokens`, which hands out a verify step's tokens per request.

    Our worker leaves its own account as `result.specserve_steps`. For SGLang's algorithms `result.cap_lens` [batch]
    holds the proposed draft tokens where they are known; those that always fill their width proposed that. Requests
    that SPECSERVE was told not to draft for carry no trace. Mutates the requests.
    """
    del processor
    steps = getattr(result, "specserve_steps", None) or _steps_of_others(tokens, result, batch)
    obeys = batch.spec_algorithm.name == "SPECSERVE"
    for req, step_tokens, step in zip(batch.reqs, tokens, steps, strict=True):
        told_off = obeys and mode_of(req.sampling_params.custom_params) == "off"
        if step_tokens and not (told_off or req.is_retracted or req.finished()):
            _append(req, step, len(step_tokens))
    return tokens


def _steps_of_others(tokens: list[list[int]], result: GenerationBatchResult, batch: ScheduleBatch) -> list[StepTrace]:
    """The steps of SGLang's own algorithms, whose only source is the algorithm; times are not known."""
    width = result.speculative_num_draft_tokens - 1
    proposed = [width] * len(tokens) if result.cap_lens is None else result.cap_lens.tolist()
    source = batch.spec_algorithm.name.lower()
    return [
        StepTrace({source: count} if count else {}, (source,) * (len(emitted) - 1))
        for count, emitted in zip(proposed, tokens, strict=True)
    ]


def _append(req: Req, step: StepTrace, tokens: int) -> None:
    """One step of `tokens` tokens behind what the request has; tokens that came from a prefill get a blank.

    A grammar that ended inside the step leaves fewer tokens than were accepted.
    """
    if req.customized_info is None:
        req.customized_info = {}
    trace = req.customized_info.setdefault(TRACE_KEY, [])
    trace.extend([0] * (len(req.output_ids) - len(trace)))
    choices = extras_of(req.sampling_params.custom_params).get("choices") is True
    trace.extend(encode_step(step, choices=choices)[:tokens])


def count_real_nodes(tree: tuple[np.ndarray, np.ndarray], worker: Any, batch: ScheduleBatch) -> None:
    """After hook of `NGRAMWorker._prepare_draft_tokens`, which pads its trees with token 0 behind the root.

    `tree` is (tokens [batch * n], ancestor mask [batch * n * n]). Notes the real draft tokens on the worker.
    """
    count = len(batch.reqs)
    tokens = tree[0].reshape(count, -1)
    n = tokens.shape[1]
    depths = tree[1].reshape(count, n, n).astype(bool).sum(-1) - 1
    padding = (tokens == 0) & (depths == 1)
    trailing = np.cumprod(padding[:, ::-1], axis=1).sum(1)
    worker.specserve_proposed = (n - 1 - trailing).tolist()


def report_real_nodes(
    result: GenerationBatchResult, worker: Any, batch: ScheduleBatch, *args: Any, **kwargs: Any
) -> None:
    """After hook of `NGRAMWorker.forward_batch_generation`: hand the noted counts on. Mutates the result."""
    del args, kwargs
    if batch.forward_mode.is_decode():
        result.cap_lens = torch.tensor(worker.specserve_proposed, dtype=torch.int32)
