"""What a decode step costs, learnt from the steps themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from service.speculation.controller import Step

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_KNOTS = np.array([0.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
_RIDGE = np.array([1e-6, 1e-4, 1e-4, 1e-4, 1e-6, *([1e-3] * (len(_KNOTS) - 1))])


@dataclass(slots=True)
class _Cell:
    """Mean features and seconds of passes of about one shape."""

    features: Floats
    seconds: float
    weight: float
    last: int


@dataclass
class CostModel:
    """Predicts the seconds of a verify pass from its requests, rows and context.

    A pass gets steadily dearer with every row, and never cheaper: seconds = a + c * requests + d * context
    + e * (drafts at all) + sum of b[k] * max(rows - knot[k], 0), all weights >= 0. This is the general form of the
    roofline of EfficientRollout (methods note 4.5): flat while memory bound, linear once compute bound. Passes are
    averaged in cells of about equal shape and the weights fitted to the cells, so that a thousand plain steps do not
    drown what was once learnt of wide ones. The speed of the whole machine is one factor that follows quickly: a
    machine that slows down, or gets company, changes all cells at once.

    Parameters: `forgetting` weighs a pass of a cell against the next one (default 0.995); `warmup` passes to see
    before predicting (default 8); `refit` passes between two fits (default 8).
    """

    forgetting: float = 0.995
    warmup: int = 8
    refit: int = 8
    drafting: DraftCost = field(default_factory=lambda: DraftCost())
    _cells: dict[tuple[int, int], _Cell] = field(default_factory=dict, init=False, repr=False)
    _weights: Floats = field(default_factory=lambda: np.zeros(4 + len(_KNOTS)), init=False, repr=False)
    _scale: float = field(default=1.0, init=False)
    _seen: int = field(default=0, init=False)
    _fitted: int = field(default=-1, init=False, repr=False)
    _widths: set[float] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.forgetting < 1:
            raise ValueError(f"forgetting must lie in (0, 1), got {self.forgetting}")

    def observe(self, *, requests: int, rows: int, context: int, verify_s: float) -> None:
        """Learn from one pass over `rows` tokens of `requests` requests with `context` tokens in all. Mutates."""
        x = _features(requests, np.array([float(rows)]), context)[0]
        key = (_level(requests), _level(rows))
        cell = self._cells.get(key)
        seconds, trust = verify_s / self._scale, 1.0
        if cell is not None and cell.weight >= 4:
            expected = max(cell.seconds + float((x - cell.features) @ self._weights), 1e-9)
            error = math.log(min(max(seconds / expected, 1 / 3), 3.0))
            # One surprising pass was interrupted by other work and many mean that the machine has changed: neither
            # says that this shape costs more beside the others.
            trust = 1 / (1 + (error / 0.1) ** 2)
            self._scale *= math.exp(0.05 * min(max(error, -0.7), 0.7))
        elif self._fitted >= 0:
            seconds = min(seconds, 4 * max(float(x @ self._weights), 1e-9))
        if cell is None:
            cell = self._cells[key] = _Cell(x, seconds, 0.0, self._seen)
        cell.weight = cell.weight * self.forgetting + trust
        cell.features = cell.features + (x - cell.features) * (trust / cell.weight)
        cell.seconds += (seconds - cell.seconds) * (trust / cell.weight)
        cell.last = self._seen
        self._seen += 1
        if len(self._widths) < 8:
            self._widths.add(rows / requests)
        if self.ready and (self._fitted < 0 or self._seen - self._fitted >= self.refit):
            self._fit()

    @property
    def ready(self) -> bool:
        """Whether passes of at least two widths, and enough of them, were seen."""
        return self._seen >= self.warmup and len(self._widths) >= 2

    def seen(self, *, requests: int, rows: int) -> float:
        """How many passes of about this shape are remembered."""
        cell = self._cells.get((_level(requests), _level(rows)))
        return 0.0 if cell is None else cell.weight

    def verify_s(self, *, requests: int, rows: int, context: int) -> float | None:
        """Seconds of a pass; None while the model is not ready."""
        curve = self.curve(requests, np.array([float(rows)]), context)
        return None if curve is None else float(curve[0])

    def curve(self, requests: int, rows: Floats, context: int) -> Floats | None:
        """Seconds of passes of the same requests over different numbers of rows; None while not ready."""
        if self._fitted < 0:
            return None
        seconds: Floats = np.maximum(_features(requests, rows, context) @ self._weights * self._scale, 1e-9)
        return seconds

    def _fit(self) -> None:
        """Least squares of relative errors over the cells, negative weights dropped. Mutates the weights."""
        cells = list(self._cells.values())
        ages = np.array([self._seen - cell.last for cell in cells])
        seconds = np.array([cell.seconds for cell in cells])
        trust = np.sqrt(np.array([min(cell.weight, 32.0) for cell in cells]) * 0.5 ** (ages / 5000)) / seconds
        x = np.stack([cell.features for cell in cells]) * trust[:, None]
        unit = float(seconds.mean())
        gram, goal = x.T @ x * unit**2, x.T @ (seconds * trust) * unit
        gram[np.diag_indices_from(gram)] += _RIDGE * gram.trace() / len(gram)
        active = np.ones(len(goal), dtype=bool)
        weights = np.zeros(len(goal))
        while active.any():
            solved = np.linalg.solve(gram[np.ix_(active, active)], goal[active])
            if (solved >= 0).all():
                weights[active] = solved
                break
            active[np.flatnonzero(active)[int(solved.argmin())]] = False
        self._weights = weights * unit
        self._fitted = self._seen


@dataclass
class DraftCost:
    """Seconds that drafting takes a request, by drafter and budget; moving averages.

    Parameters: `rate` of a new measurement (default 0.1).
    """

    rate: float = 0.1
    _seconds: dict[str, dict[int, float]] = field(default_factory=dict, init=False, repr=False)
    _last: Step | None = field(default=None, init=False, repr=False)

    def observe(self, step: Step) -> None:
        """Learn from a step; a second call with the same step changes nothing, for controllers in one another."""
        if step is self._last:
            return
        self._last = step
        budgets: dict[str, list[int]] = {}
        for outcome in step.outcomes:
            names = [*outcome.plan.shadows, *([outcome.plan.drafter] if outcome.plan.drafter else [])]
            for name in names:
                budgets.setdefault(name, []).append(outcome.plan.budget)
        spent = dict(step.drafter_s)
        if not spent and len(budgets) == 1:
            spent = dict.fromkeys(budgets, step.draft_s)
        for name, seconds in spent.items():
            if name in budgets:
                budget = round(sum(budgets[name]) / len(budgets[name]))
                self._add(name, budget, seconds / len(budgets[name]))

    def _add(self, drafter: str, budget: int, seconds: float) -> None:
        known = self._seconds.setdefault(drafter, {})
        old = known.get(budget, seconds)
        known[budget] = old + self.rate * (min(seconds, 5 * old) - old)

    def measured(self, drafter: str) -> bool:
        """Whether the drafter's time is known."""
        return drafter in self._seconds

    def seconds(self, drafter: str, budget: int) -> float:
        """Seconds for one request; 0 while the drafter was never measured alone."""
        known = self._seconds.get(drafter)
        if not known:
            return 0.0
        return known[min(known, key=lambda other: abs(other - budget))]


def _level(count: int) -> int:
    return count if count < 8 else 8 + round(4 * math.log2(count / 8))


def _features(requests: int, rows: Floats, context: int) -> Floats:
    steps = np.maximum(rows[:, None] - _KNOTS, 0.0) / 16
    base = np.empty((len(rows), 4))
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = 1.0, requests / 16, context / 4096, rows > requests
    return np.concatenate([base, steps], axis=1)
