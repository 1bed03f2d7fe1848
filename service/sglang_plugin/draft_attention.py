"""Attention of a draft model on a CPU: one backend a draft step, and the doors through which SGLang builds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.runtime_context import attention_backends

from service.sglang_plugin.attention import BACKEND_NAME, CpuTreeAttention
from service.sglang_plugin.operators.attention import RequestPlan

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner


class CpuMultiStepDraft:
    """The per-step container that SGLang's draft loop expects.

    Step i of branch k reads the text and the branch's first i + 1 drafted slots; SGLang lays a branch's `num_steps`
    slots out contiguously behind the text.
    """

    def __init__(self, model_runner: ModelRunner, topk: int, num_steps: int) -> None:
        self.topk = topk
        self.num_steps = num_steps
        self.prefill_attention_backend_str = self.decode_attention_backend_str = BACKEND_NAME
        self.attn_backends = [CpuTreeAttention(model_runner) for _ in range(num_steps - 1)]

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Plan every step. Mutates the step backends."""
        table = self.attn_backends[0].req_to_token_pool.req_to_token
        for backend in self.attn_backends:
            backend.plans = []
        rows, lengths = forward_batch.req_pool_indices.tolist(), forward_batch.seq_lens.tolist()
        for row, length in zip(rows, lengths, strict=True):
            slots = table[row].long()
            for branch in range(self.topk):
                start = length + branch * self.num_steps
                for step, backend in enumerate(self.attn_backends):
                    visible = torch.cat((slots[:length], slots[start : start + step + 1]))
                    backend.plans.append(RequestPlan(1, visible, None))

    def init_cuda_graph_state(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to prepare on a CPU."""


def _is_ours(factory: Any) -> bool:
    """Whether the draft runs on our backend: named for it, or inherited from the target."""
    return (factory.draft_attn_backend or attention_backends()[1]) == BACKEND_NAME


def create_decode_backend(original: Callable[[Any], Any], factory: Any) -> Any:
    """Around hook of `DraftBackendFactory.create_decode_backend`, whose own table of names is closed."""
    if not _is_ours(factory):
        return original(factory)
    if factory.speculative_num_steps <= 1:
        return None
    return CpuMultiStepDraft(factory.draft_model_runner, factory.topk, factory.speculative_num_steps)


def create_draft_extend_backend(original: Callable[[Any], Any], factory: Any) -> Any:
    """Around hook of `DraftBackendFactory.create_draft_extend_backend`."""
    if not _is_ours(factory):
        return original(factory)
    return CpuTreeAttention(factory.draft_model_runner)
