"""Stand-in tokens behind a prompt: one forward pass whose queries are looked at, and nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from sglang.srt.model_executor.model_runner import ModelRunner


def look_ahead(runner: ModelRunner, row: int, tokens: Sequence[int], slots: torch.Tensor) -> None:
    """Read the last of `tokens` once more behind them, with their KV in `slots` (int64). Blocks for a forward pass.

    The attention backend shows the queries to the row's statistics (`ForwardBatch.specserve_ahead`). The row of
    `req_to_token` is not touched, nothing is sampled; the caller frees the slots.
    """
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

    count, length = len(slots), len(tokens)
    stand_ins = [tokens[(length - count + i) % length] for i in range(count)]
    lengths = torch.tensor([length + count])
    batch = ForwardBatch(
        forward_mode=ForwardMode.EXTEND,
        batch_size=1,
        input_ids=torch.tensor(stand_ins),
        req_pool_indices=torch.tensor([row]),
        seq_lens=lengths,
        seq_lens_cpu=lengths,
        orig_seq_lens=lengths,
        out_cache_loc=slots,
        seq_lens_sum=length + count,
        positions=torch.arange(length, length + count),
        extend_num_tokens=count,
        extend_seq_lens=torch.tensor([count]),
        extend_prefix_lens=torch.tensor([length]),
        extend_start_loc=torch.tensor([0]),
        extend_seq_lens_cpu=[count],
        extend_prefix_lens_cpu=[length],
        extend_logprob_start_lens_cpu=[count],
        capture_hidden_mode=CaptureHiddenMode.NULL,
    )
    batch.specserve_ahead = row
    runner.forward(batch)
