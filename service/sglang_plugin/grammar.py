"""Grammar masks (JSON schema, regex, tools) over ragged draft trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.speculative.spec_utils import GrammarTree, build_grammar_vocab_mask

from service.sglang_plugin.operators.tree import write_links
from service.sglang_plugin.verify_input import RaggedVerifyInput
from service.speculation.tree import ROOT, DraftTree

if TYPE_CHECKING:
    from sglang.srt.constrained.base_grammar_backend import GrammarMask
    from sglang.srt.managers.schedule_batch import ScheduleBatch


def obeying_grammar(batch: ScheduleBatch, verify: RaggedVerifyInput) -> tuple[RaggedVerifyInput, GrammarMask | None]:
    """`verify` without the draft tokens that a grammar forbids, and the mask of its rows.

    A forbidden token can never be accepted, so its row would be wasted. Other masks than bitmasks (of backends that
    are not xgrammar) are used as they are. Mutates nothing.
    """
    mask = grammar_mask_of(batch, verify)
    if mask is None or mask.vocab_mask.dtype != torch.int32:
        return verify, mask
    kept = [
        allowed_nodes(tree, mask.vocab_mask[start : start + 1 + len(tree)]) if req.grammar else list(range(len(tree)))
        for req, tree, start in zip(batch.reqs, verify.trees, verify.starts, strict=True)
    ]
    if all(len(nodes) == len(tree) for nodes, tree in zip(kept, verify.trees, strict=True)):
        return verify, mask
    pruned, rows = verify.pruned(kept)
    return pruned, mask._replace(vocab_mask=mask.vocab_mask[rows])


def allowed_nodes(tree: DraftTree, bits: torch.Tensor) -> list[int]:
    """The nodes that the bitmask int32 [1 + nodes, vocab / 32] behind their parents allows, parents included."""
    kept: list[int] = []
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        reachable = parent == ROOT or parent in kept
        if reachable and int(bits[parent + 1, token // 32]) >> (token % 32) & 1:
            kept.append(node)
    return kept


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
