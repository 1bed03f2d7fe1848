"""The noise that sampled tokens are drawn with: the same for the target and for a drafter that draws."""

from __future__ import annotations

import numpy as np
import torch


def gumbel(seed: int, position: int, columns: int) -> torch.Tensor:
    """Standard Gumbel noise [columns], float64, a function of seed (62 bits) and position only.

    Minus the logarithm of exponential draws from Philox, a counter-based generator (Salmon et al. 2011). Float32 draws
    would not do: one in 2^23 of them is zero, which would make its token win. A drafter that adds the same noise to
    its own log-probabilities draws the target's token wherever the two agree (Gumbel coupling).
    """
    bits = np.random.Philox(key=np.array([seed, position], dtype=np.uint64))
    draws = np.random.Generator(bits).standard_exponential(columns)
    return torch.from_numpy(np.negative(np.log(draws, out=draws), out=draws))
