"""Sampling without replacement: the Gumbel top-k trick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Draw:
    """A drawn token, its log-probability, and the perturbed score that it was drawn by."""

    token: int
    log_prob: float
    score: float


def gumbel_top_k(log_probs: Sequence[float] | np.ndarray, k: int, seed: int) -> list[Draw]:
    """`k` different tokens, drawn one after the other without replacement from `log_probs`, in the order of drawing.

    Pure: the same arguments give the same draws. The first draw has the distribution itself, the n-th that of a draw
    from the tokens that are left; the scores fall, and the first one is Gumbel distributed around the logarithm of
    the sum of all probabilities. Log-probabilities need not be normalised; -inf is never drawn, so there are fewer
    than `k` draws where fewer tokens are possible. Source: arXiv 1903.06059; siblings of recursive speculative
    decoding (RSD, arXiv 2402.14160). Raises ValueError for k < 1 and for NaN or +inf.
    """
    scores = np.asarray(log_probs, dtype=np.float64)
    if k < 1 or scores.ndim != 1 or np.isnan(scores).any() or np.isposinf(scores).any():
        raise ValueError(f"needs k >= 1 and one row of log-probabilities, got k={k} and shape {scores.shape}")
    perturbed = scores + np.random.default_rng(seed).gumbel(size=len(scores))
    k = min(k, int(np.isfinite(scores).sum()))
    chosen = np.argpartition(-perturbed, max(k - 1, 0))[:k] if k else np.empty(0, dtype=int)
    order = chosen[np.argsort(-perturbed[chosen], kind="stable")]
    return [Draw(int(token), float(scores[token]), float(perturbed[token])) for token in order]
