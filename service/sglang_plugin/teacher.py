"""Teacher forcing for benchmarks: a request names its own answer, and learns how likely each token of it was.

Only engines started with `SPECSERVE_TEACHER=1` obey; requests name token ids in `custom_params.specserve.forced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from service.kvcache.answer_keys import BEST_KEY, LOGPROB_KEY, TEACHER_VARIABLE
from service.sglang_plugin.request_extras import extras_of

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.managers.utils import GenerationBatchResult


def is_teaching(environment: Mapping[str, str]) -> bool:
    """Whether this engine lets requests force tokens."""
    return environment.get(TEACHER_VARIABLE) == "1"


def force_tokens(result: GenerationBatchResult, worker: Any, batch: ScheduleBatch, *args: Any, **kwargs: Any) -> None:
    """After hook of `TpModelWorker.forward_batch_generation`: put forced tokens in place of sampled ones.

    Mutates the result and the requests. For engines without speculation, which commit one token a pass.
    """
    del worker, args, kwargs
    if batch is None or result.next_token_ids is None:
        return
    for i, req in enumerate(batch.reqs):
        token = _forced_token(req, batch)
        if token is None:
            continue
        logits = result.logits_output.next_token_logits[i].float()
        logprob = logits[token] - logits.logsumexp(0)
        _note(req, LOGPROB_KEY, float(logprob))
        _note(req, BEST_KEY, int(torch.argmax(logits) == token))
        result.next_token_ids[i] = token


def _forced_token(req: Req, batch: ScheduleBatch) -> int | None:
    unfinished = batch.forward_mode.is_extend() and req.extend_end < len(req.full_untruncated_fill_ids)
    forced = extras_of(req.sampling_params.custom_params).get("forced")
    if unfinished or not isinstance(forced, list) or len(req.output_ids) >= len(forced):
        return None
    return int(forced[len(req.output_ids)])


def _note(req: Req, key: str, value: float | int) -> None:
    if req.customized_info is None:
        req.customized_info = {}
    req.customized_info.setdefault(key, []).append(value)
