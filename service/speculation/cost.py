"""What a decode step costs, learnt from the steps themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class CostModel:
    """Predicts the seconds of a verify pass from its requests, rows and context.

    A linear model, seconds = a + b * rows + c * requests + d * context / 1000, fitted by recursive least squares with
    forgetting, so that it follows a machine that slows down or gets company. `None` is answered until enough steps
    of different width were seen. Source of the form: the roofline of EfficientRollout (methods note 4.5), whose memory
    and compute terms are both linear in rows and context at a given batch size.

    Parameters: `forgetting` weighs a step against the next one (default 0.995); `warmup` steps to see first.
    """

    forgetting: float = 0.995
    warmup: int = 8
    _weights: np.ndarray = field(init=False, repr=False)
    _spread: np.ndarray = field(init=False, repr=False)
    _seen: int = field(default=0, init=False)
    _widths: set[float] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.forgetting <= 1:
            raise ValueError(f"forgetting must lie in (0, 1], got {self.forgetting}")
        self._weights = np.zeros(4)
        self._spread = np.eye(4) * 1e3

    @staticmethod
    def _features(requests: int, rows: int, context: int) -> np.ndarray:
        return np.array([1.0, rows / 16, requests / 16, context / 4096])

    def observe(self, *, requests: int, rows: int, context: int, verify_s: float) -> None:
        """Learn from one pass over `rows` tokens of `requests` requests with `context` tokens in all. Mutates."""
        x = self._features(requests, rows, context)
        predicted = float(x @ self._weights)
        # A pass that was interrupted by other work on the machine must not move the model far.
        if self._seen >= self.warmup and predicted > 0:
            verify_s = min(verify_s, 3 * predicted)
        gain = self._spread @ x / (self.forgetting + x @ self._spread @ x)
        self._weights = self._weights + gain * (verify_s - predicted)
        self._spread = (self._spread - np.outer(gain, x @ self._spread)) / self.forgetting
        self._seen += 1
        if len(self._widths) < 8:
            self._widths.add(rows / requests)

    @property
    def ready(self) -> bool:
        """Whether passes of at least two widths, and enough of them, were seen."""
        return self._seen >= self.warmup and len(self._widths) >= 2

    def verify_s(self, *, requests: int, rows: int, context: int) -> float | None:
        """Seconds of a pass; None while the model is not ready."""
        if not self.ready:
            return None
        return max(float(self._features(requests, rows, context) @ self._weights), 1e-6)
