"""Verification of draft trees on a CPU, for SGLang's own algorithms and ours, greedy and sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from service.sglang_plugin.operators.tree import verify_tree_greedy_cpu
from service.sglang_plugin.sampling import draw_tokens

if TYPE_CHECKING:
    from sglang.srt.constrained.base_grammar_backend import GrammarMask
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo


def adjust_logits(
    logits: torch.Tensor, info: SamplingBatchInfo, rows: torch.Tensor, grammar_mask: GrammarMask | None
) -> None:
    """Apply penalties, logit biases and the grammar to a verify batch. Mutates `logits` [rows, vocab].

    Penalties count the committed text only, as SGLang's do; a request with penalties must not be drafted for.
    """
    from sglang.srt.sampling.penaltylib.repetition_penalty import apply_scaling_penalties

    if info.acc_additive_penalties is not None:
        logits.add_(info.acc_additive_penalties[rows])
    if info.acc_scaling_penalties is not None:
        apply_scaling_penalties(logits, info.acc_scaling_penalties[rows])
    if info.logit_bias is not None:
        logits.add_(info.logit_bias[rows])
    if grammar_mask is not None:
        grammar_mask.apply(logits)


def sample_tree(
    verify_input: Any,
    batch: ScheduleBatch,
    logits_output: Any,
    grammar_mask: GrammarMask | None = None,
    uno_target_max_top_k: int | None = None,
    *,
    watermark_state: Any = None,
    watermark_full_mask: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Replaces SGLang's `eagle_sample`, which turns sampled requests greedy on a CPU.

    Each node's next token is drawn from the target's own distribution behind that node and a child is accepted
    when it carries the drawn token. Drafts are point masses here, so this accepts a child with exactly the target's
    probability and emits exactly the target's distribution; rejection sampling could accept no more.
    Returns `predict` int32 [batch * n], accept lengths with the bonus token [batch], `accept_index` [batch, depth].
    """
    del uno_target_max_top_k, watermark_full_mask
    if watermark_state is not None and batch.sampling_info.has_watermark_candidates:
        raise NotImplementedError("watermarks are not supported with speculation on a CPU; disable one of them")
    batch_size, n = len(batch.seq_lens), verify_input.draft_token_num
    logits = logits_output.next_token_logits
    rows = torch.arange(batch_size).repeat_interleave(n)
    adjust_logits(logits, batch.sampling_info, rows, grammar_mask)
    drawn = draw_tokens(logits, batch.sampling_info, rows, verify_input.positions.reshape(-1).long())
    predict = torch.zeros(batch_size * n, dtype=torch.int32)
    accept_index = torch.full((batch_size, verify_input.max_tree_depth), -1, dtype=torch.int32)
    accepted = torch.empty(batch_size, dtype=torch.int32)
    verify_tree_greedy_cpu(
        predict,
        accept_index,
        accepted,
        verify_input.draft_token.reshape(batch_size, n),
        verify_input.retrieve_index,
        verify_input.retrieve_next_token,
        verify_input.retrieve_next_sibling,
        drawn.reshape(batch_size, n),
    )
    return predict, accepted + 1, accept_index
