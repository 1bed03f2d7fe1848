"""Grammar masks (JSON schema, regex, tools) over ragged draft trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.speculative.spec_utils import GrammarTree, build_grammar_vocab_mask

from service.sglang_plugin.operators.tree import write_links
from service.sglang_plugin.verify_input import RaggedVerifyInput

if TYPE_CHECKING:
    from sglang.srt.constrained.base_grammar_backend import GrammarMask
    from sglang.srt.managers.schedule_batch import ScheduleBatch


def grammar_mask_of(batch: ScheduleBatch, verify: RaggedVerifyInput) -> GrammarMask | None:
    """The bitmask of allowed tokens behind every node, one row a node; None without a grammar in the batch.

    SGLang fills masks for trees of one width, so the trees are padded with unlinked nodes and the padding rows
    are dropped again.
    """
    if not batch.has_grammar:
        return None
    width = max(verify.node_counts)
    count = len(verify.node_counts)
    next_token = torch.full((count, width), -1, dtype=torch.int64)
    next_sibling = torch.full((count, width), -1, dtype=torch.int64)
    tokens = torch.zeros(count, width, dtype=torch.int64)
    kept = torch.zeros(count, width, dtype=torch.bool)
    for i, (tree, start, n) in enumerate(zip(verify.trees, verify.starts, verify.node_counts, strict=True)):
        write_links([-1, *(parent + 1 for parent in tree.parents)], next_token[i, :n], next_sibling[i, :n])
        tokens[i, :n] = verify.draft_token[start : start + n]
        kept[i, :n] = True
    mask = build_grammar_vocab_mask(
        reqs=batch.reqs,
        tree=GrammarTree.from_host(next_token, next_sibling, tokens),
        sampling_info=batch.sampling_info,
        device="cpu",
        barrier=None,
    )
    return None if mask is None else mask._replace(vocab_mask=mask.vocab_mask[kept.view(-1)])
