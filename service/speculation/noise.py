"""The noise that sampled tokens are drawn with: the same for the target and for a drafter that draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a sampled request draws: temperature (> 0) and seed (62 bits)."""

    temperature: float
    seed: int

    def noise(self, position: int, columns: int) -> torch.Tensor:
        """Noise of the draw behind the token at `position` (the first token of the text has 0), float64 [columns]."""
        return gumbel(self.seed, position, columns)


def gumbel(seed: int, position: int, columns: int) -> torch.Tensor:
    """Standard Gumbel noise [columns], float64, a function of seed (62 bits) and position only.

    Minus the logarithm of exponential draws from Philox, a counter-based generator (Salmon et al. 2011). Float32 draws
    would not do: one in 2^23 of them is zero, which would make its token win. A drafter that adds the same noise to
    its own log-probabilities draws the target's token wherever the two agree (Gumbel coupling).
    """
    import numpy as np
    import torch

    bits = np.random.Philox(key=np.array([seed, position], dtype=np.uint64))
    draws = np.random.Generator(bits).standard_exponential(columns)
    return torch.from_numpy(np.negative(np.log(draws, out=draws), out=draws))
