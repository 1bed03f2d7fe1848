"""Verification of draft trees on a CPU, for SGLang's own algorithms and ours, greedy and sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from service.sglang_plugin.sampling import NextTokens
from service.speculation.tree import ROOT, DraftTree, follow

if TYPE_CHECKING:
    from sglang.srt.constrained.base_grammar_backend import GrammarMask
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo


def adjust_logits(
    logits: torch.Tensor, info: SamplingBatchInfo, rows: torch.Tensor, grammar_mask: GrammarMask | None
) -> None:
    """Apply logit biases and the grammar to a verify batch, after its penalties. Mutates `logits` [rows, vocab]."""
    if info.logit_bias is not None:
        logits.add_(info.logit_bias[rows])
    if grammar_mask is not None:
        grammar_mask._replace(vocab_mask=grammar_mask.vocab_mask.to(logits.device)).apply(logits)


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
    _penalize_alike(logits, batch.sampling_info, rows)
    adjust_logits(logits, batch.sampling_info, rows, grammar_mask)
    draws = NextTokens(logits, batch.sampling_info, rows, verify_input.positions.reshape(-1).long())
    trees, flat_rows = linked_trees(verify_input, batch_size)
    found = follow(trees, lambda wanted: draws([flat_rows[i][1 + node] for i, node in wanted]))
    predict = torch.zeros(batch_size * n, dtype=torch.int32)
    accept_index = torch.full((batch_size, verify_input.max_tree_depth), -1, dtype=torch.int32)
    for i, (path, emitted) in enumerate(found):
        reached = [flat_rows[i][0], *(flat_rows[i][1 + node] for node in path)]
        accept_index[i, : len(reached)] = torch.tensor(reached, dtype=torch.int32)
        predict[reached] = torch.tensor(emitted, dtype=torch.int32)
    return predict, torch.tensor([len(emitted) for _, emitted in found], dtype=torch.int32), accept_index


def _penalize_alike(logits: torch.Tensor, info: SamplingBatchInfo, rows: torch.Tensor) -> None:
    """SGLang's penalties, the same for all rows of a request; see `penalties` for exact ones. Mutates `logits`."""
    from sglang.srt.sampling.penaltylib.repetition_penalty import apply_scaling_penalties

    if info.acc_additive_penalties is not None:
        logits.add_(info.acc_additive_penalties[rows])
    if info.acc_scaling_penalties is not None:
        apply_scaling_penalties(logits, info.acc_scaling_penalties[rows])


def linked_trees(verify_input: Any, batch_size: int) -> tuple[list[DraftTree], list[list[int]]]:
    """SGLang's linked trees as ours, and the flat rows of root and nodes. Cut at the depth that SGLang can take."""
    first, sibling, index, tokens = (
        links.reshape(batch_size, -1).tolist()
        for links in (
            verify_input.retrieve_next_token,
            verify_input.retrieve_next_sibling,
            verify_input.retrieve_index,
            verify_input.draft_token,
        )
    )
    trees, flat_rows = [], []
    for i in range(batch_size):
        level, nodes = [(0, ROOT)], [0]
        parents: list[int] = []
        for _ in range(verify_input.max_tree_depth - 1):
            below = []
            for linked, node in level:
                seen, child = set[int](), first[i][linked]
                while child != -1:
                    if tokens[i][child] not in seen:
                        seen.add(tokens[i][child])
                        below.append((child, len(parents)))
                        parents.append(node)
                        nodes.append(child)
                    child = sibling[i][child]
            level = below
        trees.append(DraftTree(tuple(tokens[i][node] for node in nodes[1:]), tuple(parents)))
        flat_rows.append([index[i][node] for node in nodes])
    return trees, flat_rows
