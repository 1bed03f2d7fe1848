"""The sums of `specserve bench kv-cost`: when does a compressed KV cache make decode steps faster?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Steps:
    """One request's decode steps: milliseconds each, and how much of its text a step read in the end.

    `tokens` are the key rows of a layer's heads that a step read, on average over them; `summary_bytes` what it read
    of pages' summaries in all layers.
    """

    context: int
    ms: tuple[float, ...]
    tokens: float
    summary_bytes: int = 0

    @property
    def typical_ms(self) -> float:
        """The lower quartile: other work on the machine slows bursts of steps, and makes none faster."""
        return quantiles(self.ms)[0]

    def bytes_read(self, slot_bytes: int) -> float:
        """KV cache that a step reads, all layers, bytes; weights and activations not counted."""
        return self.tokens * slot_bytes + self.summary_bytes


@dataclass(frozen=True)
class Contest:
    """One policy and the whole cache in the same engine, each context in turn; contexts ascend.

    `identical` tells whether a text within the budget got the same tokens and log-probabilities, bit for bit.
    """

    policy: str
    whole: tuple[Steps, ...]
    own: tuple[Steps, ...]
    identical: bool

    def rows(self, slot_bytes: int) -> list[dict[str, Any]]:
        """One row a context: typical and mean milliseconds, bytes read; `mean` holds the steps that choose anew."""
        return [
            {
                "policy": self.policy,
                "context": own.context,
                "whole_ms": whole.typical_ms,
                "ms": own.typical_ms,
                "whole_mean_ms": fmean(whole.ms),
                "mean_ms": fmean(own.ms),
                "whole_bytes": whole.bytes_read(slot_bytes),
                "bytes": own.bytes_read(slot_bytes),
                "speedup": whole.typical_ms / own.typical_ms,
            }
            for whole, own in zip(self.whole, self.own, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """The two crossovers, tokens of context; None where the policy is never faster."""
        contexts = [steps.context for steps in self.own]
        whole, own = ([steps.typical_ms for steps in row] for row in (self.whole, self.own))
        return {
            "policy": self.policy,
            "identical_within_budget": self.identical,
            "crossover_predicted": predicted_crossover(contexts, whole, own),
            "crossover_measured": measured_crossover(contexts, whole, own),
        }


def predicted_crossover(contexts: Sequence[int], whole: Sequence[float], own: Sequence[float]) -> float | None:
    """Where two straight lines through the shortest and the longest context meet, tokens; None: never.

    A step costs a fixed part and a part for each token of context. 0 when the policy's line lies below everywhere.
    """
    span = contexts[-1] - contexts[0]
    slopes = [(ms[-1] - ms[0]) / span for ms in (whole, own)]
    fixed = [ms[0] - slope * contexts[0] for ms, slope in zip((whole, own), slopes, strict=True)]
    if slopes[0] <= slopes[1]:
        return None
    return max(0.0, (fixed[1] - fixed[0]) / (slopes[0] - slopes[1]))


def measured_crossover(contexts: Sequence[int], whole: Sequence[float], own: Sequence[float]) -> float | None:
    """From where on the policy was faster at every context, tokens, between two of them by a straight line.

    None when it was slower at the longest; the shortest context when it was faster at all: the truth may lie below.
    """
    gains = [a - b for a, b in zip(whole, own, strict=True)]
    if gains[-1] <= 0:
        return None
    for i in range(len(gains) - 2, -1, -1):
        if gains[i] <= 0:
            return contexts[i] + (contexts[i + 1] - contexts[i]) * -gains[i] / (gains[i + 1] - gains[i])
    return float(contexts[0])
