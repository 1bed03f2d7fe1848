"""D-Cut: across all requests verify the draft tokens that are worth their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from service.speculation.calibration import Calibration
from service.speculation.controller import DraftController, Plan, RequestView, Setting, Step
from service.speculation.price import relative_costs
from service.speculation.tree import DraftTree


@dataclass
class DCut(DraftController):
    """Keeps of all proposed trees together the nodes that give most tokens per predicted second.

    A node's chance is the product of the calibrated confidences on its path, so the k best nodes are closed under
    parents. All k are compared, none included, by (requests + sum of chances) / cost of the pass; the authors compare
    four shares. Every request keeps its root row. A tree without confidences is not cut, and nothing is while steps
    have no known cost. Cutting drafts before they are verified never changes what is accepted: lossless.

    Every `explore` steps (default 8) one node more than is worth its row is kept, so that what is always cut does not
    stay unknown. Confidences are calibrated by source from what was accepted.

    Source: D-Cut, methods note 4.6. Not useful at batch 1 on machines where a row costs nothing.
    """

    setting: Setting
    inner: DraftController
    explore: int = 8
    calibration: Calibration = field(default_factory=Calibration)
    _others: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _proposed: int = field(default=0, init=False)
    _kept: int = field(default=0, init=False)

    @classmethod
    def for_engine(cls, setting: Setting, inner: DraftController | None = None, **options: Any) -> Self:
        """Around the controller that plans."""
        if inner is None:
            raise ValueError("controller dcut cuts what another one planned: put one behind it, such as `dcut,ucb`")
        return cls(setting, inner, **options)

    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """The inner controller's plans. Mutates it."""
        return self.inner.plan(requests)

    def trim(self, requests: Sequence[RequestView], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """The worthwhile parts of the trees. Mutates the controller."""
        trees = self.inner.trim(requests, trees)
        self._steps += 1
        chances = [self.calibration.chances(tree) for tree in trees]
        sizes = [0 if some is None else len(some) for some in chances]
        batch, context = len(trees) + self._others, sum(request.context for request in requests)
        context = context * batch // max(1, len(trees))
        fixed = sum(len(tree) for tree, some in zip(trees, chances, strict=True) if some is None)
        rows = np.asarray(batch + fixed + np.arange(sum(sizes) + 1), dtype=float)
        costs = relative_costs(self.setting, batch, rows, context) if sum(sizes) else None
        if costs is None:
            return trees
        flat = np.concatenate([some for some in chances if some is not None])
        # Stable: of equal chances the parent, which comes first in its tree, is kept first.
        order = np.argsort(-flat, kind="stable")
        keep = int(((batch + np.concatenate([[0.0], np.cumsum(flat[order])])) / costs[0]).argmax())
        if keep < len(flat) and self.explore and self._steps % self.explore == 0:
            keep += 1
        self._proposed, self._kept = self._proposed + len(flat), self._kept + keep
        return self._cut(trees, sizes, np.sort(order[:keep]))

    @staticmethod
    def _cut(trees: Sequence[DraftTree], sizes: Sequence[int], kept: np.ndarray) -> list[DraftTree]:
        starts = np.cumsum([0, *sizes])
        cut = []
        for tree, start, size in zip(trees, starts[:-1], sizes, strict=True):
            mine = kept[(kept >= start) & (kept < start + size)] - start
            cut.append(tree if len(mine) == size else tree.kept(mine.tolist()))
        return cut

    def observe(self, step: Step) -> None:
        """Calibrate, and let the inner controller learn. Mutates both."""
        self._others = step.requests - len(step.outcomes)
        for outcome in step.outcomes:
            if outcome.tree is not None and len(outcome.tree):
                self.calibration.observe(outcome.tree, outcome.path)
        self.inner.observe(step)

    def forget(self, key: str) -> None:
        """Nothing is kept by request here. Mutates the inner controller."""
        self.inner.forget(key)

    def state(self) -> Mapping[str, object]:
        """Share of the proposed nodes that was kept, calibration by source, and the inner controller's state."""
        share = round(self._kept / self._proposed, 4) if self._proposed else None
        return {"kept_share": share, "calibration": self.calibration.table(), "inner": self.inner.state()}
