"""One verify step's input: a draft tree for each request, of its own size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sglang.srt.speculative.ngram_info import NgramVerifyInput

from service.speculation.tree import ROOT, DraftTree


class RaggedVerifyInput(NgramVerifyInput):
    """`NgramVerifyInput` without padding: request i owns `node_counts[i]` rows of the flat batch, its root first.

    `custom_mask` is the concatenation of the n x n tree masks. Between steps it carries what NGRAM carries. All of it
    is on the host; `seq_lens` are int64 [batch], the stored tokens of each text.
    """

    def __init__(
        self, trees: Sequence[DraftTree], last_tokens: Sequence[int], seq_lens: torch.Tensor, width: int
    ) -> None:
        self.trees = tuple(trees)
        self.node_counts = [1 + len(tree) for tree in trees]
        tokens: list[int] = []
        depths: list[int] = []
        for tree, last in zip(trees, last_tokens, strict=True):
            tokens += (last, *tree.tokens)
            depths += (0, *tree.depths())
        counts = torch.tensor(self.node_counts)
        self.rows = torch.arange(len(trees)).repeat_interleave(counts)
        super().__init__(
            draft_token=torch.tensor(tokens, dtype=torch.int64),
            custom_mask=torch.cat([tree_mask(tree).view(-1) for tree in trees]),
            positions=seq_lens[self.rows] + torch.tensor(depths),
            draft_token_num=width,
        )

    def pruned(self, kept: Sequence[Sequence[int]]) -> tuple[RaggedVerifyInput, torch.Tensor]:
        """The input with these nodes of each tree alone, and which of this one's rows they are, int64."""
        roots = torch.tensor(self.starts)
        trees = [tree.kept(nodes) for tree, nodes in zip(self.trees, kept, strict=True)]
        lengths, last_tokens = self.positions[roots], self.draft_token[roots].tolist()
        rows = [
            row
            for start, nodes in zip(self.starts, kept, strict=True)
            for row in (start, *(start + 1 + n for n in nodes))
        ]
        return RaggedVerifyInput(trees, last_tokens, lengths, self.draft_token_num), torch.tensor(rows)

    @property
    def places(self) -> torch.Tensor:
        """Where the rows are in a batch of `draft_token_num` rows a request, int64 [rows]."""
        within = torch.arange(len(self.rows)) - torch.tensor(self.starts)[self.rows]
        return self.rows * self.draft_token_num + within

    @property
    def starts(self) -> list[int]:
        """First flat row of each request."""
        starts, row = [], 0
        for count in self.node_counts:
            starts.append(row)
            row += count
        return starts


def tree_mask(tree: DraftTree) -> torch.Tensor:
    """Bool [n, n]: row i sees node j when j is i itself or an ancestor; node 0 is the root."""
    n = len(tree) + 1
    if tree.parents == tuple(range(ROOT, n - 2)):
        return torch.ones(n, n, dtype=torch.bool).tril()
    mask = torch.eye(n, dtype=torch.bool)
    mask[:, 0] = True
    for node, parent in enumerate(tree.parents, start=1):
        if parent != ROOT:
            mask[node] |= mask[parent + 1]
    return mask
