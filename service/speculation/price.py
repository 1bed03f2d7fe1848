"""What draft tokens cost one request of a batch, in its share of a plain step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from service.speculation.controller import Setting
from service.speculation.cost import Floats

__all__ = ["Floats", "Price", "price_of", "relative_costs"]


@dataclass(frozen=True, slots=True)
class Price:
    """Prices at one batch size. A plain step costs each request 1; a node of its tree costs `node` more.

    `share_s` are the seconds of that 1, None while steps have no known cost: then drafting counts as free.
    """

    setting: Setting
    node: float
    share_s: float | None
    _drafts: dict[tuple[str, int], float] = field(default_factory=dict, repr=False, compare=False)

    def draft(self, drafter: str | None, budget: int) -> float:
        """The drafter's own time."""
        if drafter is None or self.share_s is None:
            return 0.0
        known = self._drafts.get((drafter, budget))
        if known is None:
            known = self._drafts[drafter, budget] = self.setting.cost.drafting.seconds(drafter, budget) / self.share_s
        return known

    def of(self, drafter: str | None, budget: int, nodes: float) -> float:
        """A round of this drafter that has `nodes` nodes verified."""
        return 1.0 + self.node * nodes + self.draft(drafter, budget)


def price_of(setting: Setting, batch: int, nodes: int, context: int) -> Price:
    """Prices in a pass of `batch` requests whose trees have about `nodes` nodes together.

    Everyone pays for the own rows, so that a request is not credited with what others cost or gain.
    """
    extra = max(nodes, batch, 1)
    seconds = setting.cost.curve(max(1, batch), np.array([float(batch), float(batch + extra)]), context)
    if seconds is None:
        return Price(setting, 0.0, None)
    plain = float(seconds[0])
    return Price(setting, max(0.0, float(seconds[1]) / plain - 1) * max(1, batch) / extra, plain / max(1, batch))


def relative_costs(setting: Setting, batch: int, rows: Floats, context: int) -> tuple[Floats, float] | None:
    """Costs of passes over `rows` rows in plain steps of the same batch, and the plain step's seconds."""
    seconds = setting.cost.curve(batch, np.concatenate([[float(batch)], rows]), context)
    if seconds is None:
        return None
    return np.asarray(seconds[1:] / seconds[0]), float(seconds[0])
