"""EXP3: arms drawn by what they gave, safe against text that changes its mind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from service.speculation.arms import ArmController, Columns, Tally
from service.speculation.controller import Outcome, RequestView
from service.speculation.price import Floats, Price


@dataclass
class Exp3(ArmController):
    """EXP3Spec of BanditSpec: arm i with probability ~ exp(-eta_t * its summed losses), eta_t = sqrt(ln K / (t K)).

    The loss of the played arm, divided by its probability, is 1 - (tokens per cost) / `span`, cut to [0, 1]. Its regret
    is bounded whatever the text does, at the price of never settling: `ucb` is faster where arms are steady.

    Source: BanditSpec, arXiv 2505.15141, algorithm 3; the cost, the discount and the shared prior are ours.

    Parameters: `shares`, `off`, `discount`, `prior` as for `ucb`; `span` tokens per plain step's cost that count as
    loss 0 (default 4; 0: budget + 1, as published); `eagerness` factor on eta (default 10, as published 1); `centred`
    counts losses from the usual loss (default true, as published false), without which dividing by small probabilities
    drowns all else.
    """

    span: float = 4.0
    eagerness: float = 10.0
    centred: bool = True
    _usual: float = field(default=0.5, init=False)
    _draw: random.Random = field(init=False, repr=False)
    _odds: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    columns: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draw = random.Random(self.setting.seed)

    def pick(self, requests: Sequence[RequestView], known: Sequence[Tally], price: Price) -> list[int]:
        """An arm for each request, drawn."""
        del price
        chosen = []
        for request, tally in zip(requests, known, strict=True):
            chances = self.chances(tally)
            arm = self._draw.choices(range(len(self.arms)), chances.tolist())[0]
            self._odds[request.key] = float(chances[arm])
            chosen.append(arm)
        return chosen

    def chances(self, tally: Tally) -> Floats:
        """The probability of each arm."""
        arms = len(self.arms)
        eta = self.eagerness * np.sqrt(np.log(max(2, arms)) / (max(1.0, float(tally.rounds[0])) * arms))
        losses = tally.columns[0]
        weights = np.exp(-eta * (losses - losses.min()))
        return np.asarray(weights / weights.sum())

    def learn(self, outcome: Outcome, arm: int, price: Price) -> Columns:
        """The played arm's loss beside the usual one, over its probability; 0 for the others: sums stay unbiased."""
        cost = price.of(outcome.plan.drafter, outcome.plan.budget, outcome.proposed)
        loss = loss_of(outcome.accepted, cost, self.span or self.setting.budget + 1.0)
        usual = self._usual if self.centred else 0.0
        self._usual += 0.05 * (loss - self._usual)
        loss -= usual
        return {other: (loss / self._odds[outcome.key] if other == arm else 0.0,) for other in range(len(self.arms))}

    def forget(self, key: str) -> None:
        """Drop what is kept for the request. Mutates."""
        super().forget(key)
        self._odds.pop(key, None)


def loss_of(accepted: float, cost: float, span: float) -> float:
    """1 - tokens per cost / span, cut to [0, 1]."""
    return min(1.0, max(0.0, 1 - (accepted + 1) / cost / span))
