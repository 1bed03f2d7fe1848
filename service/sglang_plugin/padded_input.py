"""One verify step's input as SGLang's GPU attention reads it: as many rows for every request."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sglang.srt.speculative.ngram_info import NgramVerifyInput

from service.sglang_plugin.verify_input import RaggedVerifyInput


class PaddedVerifyInput(NgramVerifyInput):
    """The trees of a `RaggedVerifyInput`, each padded to `width` rows, on the model's device.

    The kernels that read a tree mask (triton, flashinfer) and the graphs that replay a verify pass take batches of one
    width, and masks of whole rows: n x (text + n) for each request. A padding row repeats the root; nothing sees it and
    its logits are dropped. A GPU's verify pass reads the weights once whatever the width, so the rows cost little.
    """

    def __init__(self, ragged: RaggedVerifyInput, lengths: Sequence[int], device: torch.device | str) -> None:
        """`lengths` are the stored tokens of each text, the roots not among them."""
        count, width = len(ragged.trees), ragged.draft_token_num
        roots = torch.tensor(ragged.starts)
        tokens = ragged.draft_token[roots].repeat_interleave(width)
        positions = ragged.positions[roots].repeat_interleave(width)
        tokens[ragged.places], positions[ragged.places] = ragged.draft_token, ragged.positions
        super().__init__(
            draft_token=tokens.to(device),
            custom_mask=whole_mask(padded_masks(ragged, count, width), lengths, device),
            positions=positions.to(device),
            draft_token_num=width,
        )
        self.real = ragged.places.to(device)
        """Where the trees' own rows are, int64 [rows]."""


def padded_masks(ragged: RaggedVerifyInput, count: int, width: int) -> torch.Tensor:
    """The tree masks, bool [count, width, width]; padding rows see the root and themselves."""
    masks = torch.eye(width, dtype=torch.bool).repeat(count, 1, 1)
    masks[:, :, 0] = True
    offset = 0
    for i, n in enumerate(ragged.node_counts):
        masks[i, :n, :n] = ragged.custom_mask[offset : offset + n * n].view(n, n)
        offset += n * n
    return masks


def whole_mask(trees: torch.Tensor, lengths: Sequence[int], device: torch.device | str) -> torch.Tensor:
    """Flat bool mask on `device`: for each request n rows that see its whole text and their part of the tree.

    `trees` bool [batch, n, n] are on the host. The texts, which are nearly all of the mask, are never built there.
    """
    n = trees.shape[1]
    total = sum(n * (length + n) for length in lengths)
    texts = torch.tensor(lengths, device=device)
    widths = texts + n
    steps = torch.arange(n, device=device)
    first = (n * widths).cumsum(0) - n * widths
    rows = first[:, None] + steps * widths[:, None] + texts[:, None]
    mask = torch.ones(total, dtype=torch.bool, device=device)
    mask[(rows[:, :, None] + steps).view(-1)] = trees.to(device).view(-1)
    return mask
