"""Sampling that speculation cannot change: every sampled request has a seed, and a token's draw depends only on
its seed, its position and its distribution. A request therefore draws the same tokens with drafts and without, but
for rounding: passes of different width differ in the last bits, which can move a draw across a border.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

SEED_MASK = 2**62 - 1
WORD = 2**64 - 1


def seed_of(seed: int | None, rid: str) -> int:
    """The seed of one completion: the client's, else a random one. Choices behind the first (`rid` ends in `-2`,
    `-3`, ...) get seeds derived from it, so that `n` choices differ and yet repeat."""
    if seed is None:
        return secrets.randbits(62)
    choice = re.search(r"-(\d{1,3})$", rid)
    if choice is None or int(choice[1]) < 2:
        return seed & SEED_MASK
    digest = hashlib.blake2b(f"{seed}:{choice[1]}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") & SEED_MASK


def add_seeds(result: SamplingBatchInfo, cls: type, batch: Any, vocab_size: int) -> SamplingBatchInfo:
    """After hook of `SamplingBatchInfo.from_schedule_batch`: SGLang seeds requests in its deterministic mode only.

    A seed is drawn once a request and kept on it as `specserve_seed`; greedy requests get one too, because SGLang
    merges batches column by column. Mutates the result and the requests.
    """
    del cls, vocab_size
    for req in batch.reqs:
        if not hasattr(req, "specserve_seed"):
            req.specserve_seed = seed_of(req.sampling_params.sampling_seed, req.rid)
    result.sampling_seed = torch.tensor([req.specserve_seed for req in batch.reqs], dtype=torch.int64)
    return result


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on seed and position only: splitmix64 of both, 53 bits (Steele et al. 2014)."""
    state = (seed * 0x9E3779B97F4A7C15 + position * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & WORD
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & WORD
    return ((state ^ (state >> 31)) >> 11) * 2.0**-53


def draw_seeded(logprobs: torch.Tensor, seed: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Replaces SGLang's `multinomial_with_seed`, which needs a CUDA-only hash: inverse-CDF sampling.

    `logprobs` are log weights [rows, columns] that need not sum to one, -inf for never; `seed` and `positions` are
    integers [rows]. Returns the drawn column of each row, int64 [rows, 1]. One number a row replaces one a column.
    """
    cumulative = logprobs.double().exp_().cumsum_(-1)
    draws = [uniform(s, p) for s, p in zip(seed.tolist(), positions.tolist(), strict=True)]
    threshold = torch.tensor(draws, dtype=torch.float64).unsqueeze(-1) * cumulative[:, -1:]
    # The first column whose cumulative weight exceeds the threshold; columns of weight 0 are never first.
    return torch.searchsorted(cumulative, threshold, right=True).clamp_max_(logprobs.shape[-1] - 1)


def sample_filtered(
    original: Callable[..., Any],
    probs: torch.Tensor,
    top_ks: torch.Tensor,
    top_ps: torch.Tensor,
    min_ps: torch.Tensor,
    need_min_p_sampling: bool,
    sampling_seed: torch.Tensor | None,
    positions: torch.Tensor,
    **options: Any,
) -> Any:
    """Around hook of SGLang's torch sampler, which refuses min-p with seeds: min-p is applied here first.

    `probs` is float [rows, vocab]; min-p keeps tokens with at least `min_p` times the best probability. Dropping
    them before top-k and top-p keeps the same set as after, because both keep a prefix of the sorted tokens; the
    weights need no renormalising, a draw by argmax of weight plus noise is invariant to their scale.
    """
    if sampling_seed is not None and need_min_p_sampling:
        floor = probs.amax(-1, keepdim=True) * min_ps.view(-1, 1)
        kept = probs.masked_fill(probs < floor, 0.0)
        top_p_mass = top_ps.view(-1)
        return original(kept, top_ks, top_p_mass, min_ps, False, sampling_seed, positions, **options)
    return original(probs, top_ks, top_ps, min_ps, need_min_p_sampling, sampling_seed, positions, **options)


def draw_tokens(
    logits: torch.Tensor, info: SamplingBatchInfo, rows: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """One token for each row of a verify batch, as SGLang's sampler draws it for a plain decode step.

    `logits` float [rows, vocab] with penalties, biases and grammar applied; `rows` int64 [rows] names the request
    of each row; `positions` int64 [rows] the position of its last token. Returns int64 [rows]. Mutates nothing.
    """
    if info.is_all_greedy:
        return logits.argmax(-1)
    from sglang.srt.layers.sampler import sampling_from_probs_torch, top_k_top_p_min_p_sampling_from_probs_torch

    probs = torch.softmax(logits / info.temperatures[rows], dim=-1)
    seeds = info.sampling_seed[rows]
    if not (info.need_top_p_sampling or info.need_top_k_sampling or info.need_min_p_sampling):
        drawn = sampling_from_probs_torch(probs, sampling_seed=seeds, positions=positions)
    else:
        drawn = top_k_top_p_min_p_sampling_from_probs_torch(
            probs,
            info.top_ks[rows],
            info.top_ps[rows],
            info.min_ps[rows],
            info.need_min_p_sampling,
            seeds,
            positions,
            max_top_k=info.max_top_k,
        )
    drawn = drawn.reshape(-1).long()
    if info.is_any_greedy:
        # top_k = 1 is how SGLang writes greedy; the argmax must not depend on how a filter breaks ties.
        drawn = torch.where(info.top_ks[rows] <= 1, logits.argmax(-1), drawn)
    return drawn
