"""`streaming`: the first tokens and the newest ones."""

from __future__ import annotations

import torch

from service.kvcache.eviction import CacheView
from service.kvcache.scoring import ScoredTokens


class Streaming(ScoredTokens):
    """Attention sinks and a window (StreamingLLM, https://arxiv.org/abs/2309.17453).

    Costs nothing, sees nothing between sinks and window: not for answers that need the middle of the prompt. Keys
    keep their positions in the text, so a model's longest context is not extended.
    """

    def score(self, view: CacheView) -> torch.Tensor:
        """Newer is better."""
        return view.positions.float()
