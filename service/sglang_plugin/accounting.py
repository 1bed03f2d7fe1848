"""What each decode step of each request really proposed and got accepted, for SGLang's algorithms and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from service.sglang_plugin.drafting import mode_of
from service.sglang_plugin.trace import TRACE_KEY, encode_step

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.managers.utils import GenerationBatchResult


def trace_steps(
    tokens: list[list[int]], processor: Any, result: GenerationBatchResult, batch: ScheduleBatch
) -> list[list[int]]:
    """After hook of SGLang's `_resolve_spec_v2_tokens`, which hands out a verify step's tokens per request.

    `result.cap_lens` [batch] holds the proposed draft tokens where a worker knows them; algorithms that always fill
    their width proposed that. Requests that SPECSERVE was told not to draft for carry no trace. Mutates the requests.
    """
    del processor
    width = result.speculative_num_draft_tokens - 1
    proposed = [width] * len(tokens) if result.cap_lens is None else result.cap_lens.tolist()
    obeys = batch.spec_algorithm.name == "SPECSERVE"
    for req, step_tokens, step_proposed in zip(batch.reqs, tokens, proposed, strict=True):
        told_off = obeys and mode_of(req.sampling_params.custom_params) == "off"
        if step_tokens and not (told_off or req.is_retracted or req.finished()):
            _append(req, step_proposed, len(step_tokens) - 1)
    return tokens


def _append(req: Req, proposed: int, accepted: int) -> None:
    """One step behind what the request has; tokens that came from a prefill get a blank."""
    if req.customized_info is None:
        req.customized_info = {}
    trace = req.customized_info.setdefault(TRACE_KEY, [])
    trace.extend([0] * (len(req.output_ids) - len(trace)))
    trace.extend(encode_step(proposed, accepted))


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
