"""Draft-tree operators: build the links and mask of a tree, read them back from a mask, verify greedily.

A tree of n nodes has node 0 as root (the last committed token). Links are `next_token` (first child) and
`next_sibling`, -1 for none; node b, i is row `b * n + i` of the flat verify batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

FULL_MASK, QLEN_ONLY = 0, 1


def _parents(selected: list[int], parent_table: list[int], topk: int) -> list[int]:
    """Parent of each selected node; -1 for the root. `selected` indexes the drafted scores in step order."""
    parents = [-1]
    node_of = {score_index: node for node, score_index in enumerate(selected, start=1)}
    for score_index in selected:
        row = score_index // topk
        parents.append(0 if row == 0 else node_of[parent_table[row]])
    return parents


def write_links(parents: list[int], next_token: torch.Tensor, next_sibling: torch.Tensor) -> None:
    """First-child and next-sibling links from parents; roots (-1) are linked nowhere. Mutates both outputs [n]."""
    children = [-1] * len(parents)
    siblings = [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        if parent >= 0:
            siblings[node] = children[parent]
            children[parent] = node
    next_token.copy_(torch.tensor(children, dtype=next_token.dtype))
    next_sibling.copy_(torch.tensor(siblings, dtype=next_sibling.dtype))


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    num_nodes: int,
    tree_mask_mode: int,
) -> None:
    """Mask, positions and links of EAGLE-style trees. Mutates `tree_mask`, `positions` and the three links.

    `parent_list` [batch, parents] and `selected_index` [batch, num_nodes - 1] come from the draft steps. The mask
    is FULL_MASK (rows of seq_len + n booleans) or QLEN_ONLY (rows of n); other modes raise ValueError.
    """
    del depth
    if tree_mask_mode not in (FULL_MASK, QLEN_ONLY):
        raise ValueError(f"tree mask mode {tree_mask_mode} is not supported on a CPU; use 0 or 1")
    n = num_nodes
    flat_mask, flat_positions = tree_mask.reshape(-1), positions.reshape(-1)
    offset = 0
    for b, seq_len in enumerate(seq_lens.tolist()):
        parents = _parents(selected_index[b].tolist(), parent_list[b].tolist(), topk)
        prefix = 0 if tree_mask_mode == QLEN_ONLY else seq_len
        rows = flat_mask[offset : offset + n * (prefix + n)].view(n, prefix + n)
        offset += n * (prefix + n)
        rows[:, :prefix] = True
        rows[:, prefix:] = False
        for node, parent in enumerate(parents):
            if parent >= 0:
                rows[node, prefix:] = rows[parent, prefix:]
            rows[node, prefix + node] = True
        flat_positions[b * n : (b + 1) * n] = rows[:, prefix:].sum(-1) - 1 + seq_len
        retrieve_index[b] = torch.arange(b * n, (b + 1) * n)
        write_links(parents, retrieve_next_token[b], retrieve_next_sibling[b])


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    batch_size: int,
    num_nodes: int,
) -> None:
    """Positions and links from masks [batch, n, n] (`mask[i, j]`: j is an ancestor of i). Mutates the four outputs."""
    n = num_nodes
    ancestors = tree_mask.reshape(batch_size, n, n).bool().tril(-1)
    depth = ancestors.sum(-1) + verified_seq_len.reshape(batch_size, 1)
    positions.copy_(depth.reshape(positions.shape))
    retrieve_index.copy_(torch.arange(batch_size * n).reshape(retrieve_index.shape))
    columns = torch.arange(n)
    parents = torch.where(ancestors, columns, -1).amax(-1)
    for b, row in enumerate(parents.tolist()):
        write_links(row, retrieve_next_token[b], retrieve_next_sibling[b])


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Follow from each root the child that equals the target's token. Mutates the first three arguments.

    `candidates`, `target_predict` and the links are [batch, n]; `accept_index` [batch, depth] receives rows of the
    flat batch (root first, -1 behind the end), `accept_token_num` [batch] the accepted drafts without the bonus
    token, `predicts` [batch * n] the tokens: accepted ones and, at the last accepted node, the bonus token.
    """
    limit = accept_index.shape[1]
    wanted = target_predict.reshape(candidates.shape).tolist()
    rows = retrive_index.tolist()
    children, siblings = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    for b, tokens in enumerate(candidates.tolist()):
        path = [0]
        while len(path) < limit:
            node = children[b][path[-1]]
            while node != -1 and tokens[node] != wanted[b][path[-1]]:
                node = siblings[b][node]
            if node == -1:
                break
            path.append(node)
        for step, node in enumerate(path):
            accept_index[b, step] = rows[b][node]
            predicts[rows[b][node]] = wanted[b][node]
        accept_token_num[b] = len(path) - 1


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, stride: int
) -> None:
    """Pick each request's last accepted token from rows of `stride`. Mutates `bonus_tokens` [batch]."""
    rows = accept_tokens.reshape(-1, stride)
    last = (accept_lens.long() - 1).reshape(-1, 1)
    bonus_tokens.copy_(rows.gather(1, last).reshape(bonus_tokens.shape))


def rotate_input_ids_cpu(*args: object, **kwargs: object) -> None:
    """Multi-layer EAGLE heads only, which no CPU profile offers."""
    raise NotImplementedError("multi-layer EAGLE is not supported on a CPU; use algorithm standalone or specserve")


def trees_of(spec: Any, lengths: Sequence[int]) -> Iterator[torch.Tensor]:
    """Of each request of a verify step which of its new rows see which, bool [n, n]; `lengths` are of texts so far.

    `spec` is SGLang's verify input, whose mask holds the trees alone or what lies before them too.
    """
    counts = getattr(spec, "node_counts", None) or [spec.draft_token_num] * len(lengths)
    flat = spec.custom_mask.reshape(-1)
    tree_only = flat.numel() == sum(n * n for n in counts)
    offset = 0
    for length, n in zip(lengths, counts, strict=True):
        width = n if tree_only else length + n
        yield flat[offset : offset + n * width].view(n, width)[:, width - n :].bool()
        offset += n * width
