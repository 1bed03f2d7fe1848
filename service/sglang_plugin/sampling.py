"""Sampling that speculation cannot change: a token's draw depends only on its seed, position and distribution.

A sampled request therefore draws the same tokens with drafts and without. Draws are by Gumbel-max with noise that
belongs to the token id, so that the last bits of a distribution, which differ between passes of different width,
change a token only where the two best sums all but tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from service.speculation.noise import gumbel

if TYPE_CHECKING:
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

_FIRST_LOOK = 256
"""Tokens looked at before all are sorted; nearly every top-p set is smaller."""


def draw_seeded(logprobs: torch.Tensor, seed: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Replaces SGLang's `multinomial_with_seed`, which needs a CUDA-only hash and one hash a column.

    `logprobs` are log weights [rows, columns] that need not sum to one, -inf for never; `seed` and `positions` are
    integers [rows]. Returns the drawn column of each row, int64 [rows, 1]. Mutates nothing.
    """
    drawn = [
        (row + gumbel(s, p, len(row))).argmax()
        for row, s, p in zip(logprobs, seed.tolist(), positions.tolist(), strict=True)
    ]
    return torch.stack(drawn).unsqueeze(-1)


def kept_tokens(probs: torch.Tensor, top_k: int, top_p: float, min_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of one row that pass top-k, top-p and min-p, and their weights, in falling order.

    `probs` float [vocab]. A token passes top-p when the tokens before it hold at most `top_p` of the mass, min-p when
    it has at least `min_p` times the best probability. Each filter keeps the first tokens of the order, so that it
    does not matter which goes first.
    """
    for count in (min(top_k, _FIRST_LOOK), min(top_k, len(probs))):
        weights, tokens = probs.topk(min(count, len(probs)))
        before = weights.cumsum(0) - weights
        kept = (before <= top_p) & (weights >= min_p * weights[0])
        if not kept[-1]:
            break
    return tokens[kept], weights[kept]


def sample_filtered(
    original: Callable[..., Any],
    probs: torch.Tensor,
    top_ks: torch.Tensor,
    top_ps: torch.Tensor,
    min_ps: torch.Tensor,
    need_min_p_sampling: bool,
    sampling_seed: torch.Tensor | None,
    positions: torch.Tensor,
    *,
    return_filtered_probs: bool = False,
    max_top_k: int | None = None,
) -> Any:
    """Around hook of SGLang's torch sampler, which sorts the vocabulary for each row and refuses min-p with seeds.

    `probs` is float [rows, vocab]; returns the drawn tokens, int32 [rows]. Unseeded draws and those whose filtered
    weights are asked for stay SGLang's.
    """
    if sampling_seed is None or return_filtered_probs:
        options = {"return_filtered_probs": return_filtered_probs, "max_top_k": max_top_k}
        return original(probs, top_ks, top_ps, min_ps, need_min_p_sampling, sampling_seed, positions, **options)
    floors = min_ps if need_min_p_sampling else torch.zeros_like(top_ps)
    limits = zip(top_ks.view(-1).tolist(), top_ps.view(-1).tolist(), floors.view(-1).tolist(), strict=True)
    drawn = []
    for row, limit, seed, position in zip(probs, limits, sampling_seed.tolist(), positions.tolist(), strict=True):
        tokens, weights = kept_tokens(row, *limit)
        noise = gumbel(seed, position, len(row))[tokens]
        drawn.append(tokens[(weights.double().log() + noise).argmax()])
    return torch.stack(drawn).int()


class NextTokens:
    """The target's next token behind rows of a verify batch, drawn as SGLang's sampler draws for a plain step.

    `logits` float [rows, vocab] with penalties, biases and grammar applied; `rows` int64 [rows] names the request of
    each row; `positions` int64 [rows] the position of its last token. Rows are drawn when asked for: most rows of a
    tree are never reached, and a sampled draw costs far more than a look at the best token.
    """

    def __init__(
        self, logits: torch.Tensor, info: SamplingBatchInfo, rows: torch.Tensor, positions: torch.Tensor
    ) -> None:
        self._logits, self._info, self._rows, self._positions = logits, info, rows, positions
        self._best = logits.argmax(-1)

    def __call__(self, wanted: Sequence[int]) -> list[int]:
        """The tokens behind the wanted rows."""
        index = torch.tensor(wanted)
        best = self._best[index]
        if self._info.is_all_greedy:
            return [int(token) for token in best.tolist()]
        drawn = self._draw(index)
        if self._info.is_any_greedy:
            # top_k = 1 is how SGLang writes greedy; the argmax must not depend on how a filter breaks ties.
            drawn = torch.where(self._info.top_ks[self._rows[index]] <= 1, best, drawn)
        return [int(token) for token in drawn.tolist()]

    def _draw(self, index: torch.Tensor) -> torch.Tensor:
        from sglang.srt.layers.sampler import sampling_from_probs_torch, top_k_top_p_min_p_sampling_from_probs_torch

        info, rows, positions = self._info, self._rows[index], self._positions[index].to(self._logits.device)
        probs = torch.softmax(self._logits[index] / info.temperatures[rows], dim=-1)
        # SGLang's GPU sampler takes no seeds but in its deterministic mode; then each draw is a fresh one.
        seeds = None if info.sampling_seed is None else info.sampling_seed[rows]
        if not (info.need_top_p_sampling or info.need_top_k_sampling or info.need_min_p_sampling):
            drawn = sampling_from_probs_torch(probs, sampling_seed=seeds, positions=positions)
        else:
            top_ks, top_ps, min_ps = info.top_ks[rows], info.top_ps[rows], info.min_ps[rows]
            options = {"max_top_k": info.max_top_k}
            drawn = top_k_top_p_min_p_sampling_from_probs_torch(
                probs, top_ks, top_ps, min_ps, info.need_min_p_sampling, seeds, positions, **options
            )
        return drawn.reshape(-1).long()
