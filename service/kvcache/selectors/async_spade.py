"""`async_spade`: pages for the query that is foreseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from service.kvcache.selectors.quest import Quest


@dataclass(frozen=True)
class AsyncSpade(Quest):
    """Quest's bounds for a query predicted from the ones before it (AsyncSpade), so that the choice of a step does
    not wait for its query.

    For each head a ridge regression over the last queries tells how the next one follows from `order` before it; with
    too few of them the last query stands in. Here choice and attention run in turn, so nothing gets faster: it shows
    what the prediction costs in quality.
    """

    order: int = 3
    ridge: float = 0.1
    history: ClassVar[int] = 16

    def score(self, query: torch.Tensor, summaries: torch.Tensor, scale: float, history: torch.Tensor) -> torch.Tensor:
        """Quest's score of the predicted query; the true one is looked at only when there is nothing before it."""
        predicted = query if history.shape[0] == 0 else self.predict(history)
        return super().score(predicted, summaries, scale, history)

    def predict(self, history: torch.Tensor) -> torch.Tensor:
        """The next query [heads, dim] from those before it [steps, heads, dim]."""
        steps = history.shape[0]
        if steps <= self.order:
            return history[-1]
        past = history.float()
        # Row t of a head: what `order` queries before t say about query t, all channels alike.
        features = torch.stack([past[i : steps - self.order + i] for i in range(self.order)], -1)
        heads = past.shape[1]
        inputs = features.permute(1, 0, 2, 3).reshape(heads, -1, self.order)
        targets = past[self.order :].transpose(0, 1).reshape(heads, -1, 1)
        gram = inputs.mT @ inputs
        size = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        weights = torch.linalg.solve(gram + self.ridge * size * torch.eye(self.order), inputs.mT @ targets)
        return (past[-self.order :].permute(1, 2, 0) @ weights)[..., 0]
