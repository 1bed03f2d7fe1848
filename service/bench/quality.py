"""The quality gate's sums: what a compressed KV cache does to answers, against the whole cache on the same tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, Literal

Kind = Literal["perplexity", "recall", "agreement", "multi_turn"]
KINDS: tuple[Kind, ...] = ("perplexity", "recall", "agreement", "multi_turn")


@dataclass(frozen=True, slots=True)
class Task:
    """Tokens to read, and the answer that is forced; `group` is the needle's depth, 0 to 1, where there is one."""

    kind: Kind
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    group: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One forced answer: log-probabilities and whether each token was the greedy choice.

    `held` are the tokens in the KV cache at the end, of `length`; `read` is the share of them that steps read.
    """

    logprobs: tuple[float, ...]
    best: tuple[bool, ...]
    held: int
    length: int
    read: float = 1.0


SizeOf = Callable[[Score], int]
"""Bytes of the KV cache that a scored text ended with."""


@dataclass(frozen=True)
class Thresholds:
    """What a report must reach: perplexity at most, the others at least; ratios are to the whole cache."""

    perplexity_ratio: float = 1.05
    recall_ratio: float = 0.9
    agreement: float = 0.9
    multi_turn: float = 0.9


def quality_summary(
    tasks: Sequence[Task],
    whole: Sequence[Score],
    compressed: Sequence[Score],
    sizes: tuple[SizeOf, SizeOf],
    thresholds: Thresholds,
) -> dict[str, Any]:
    """Figures and verdict; scores in the order of tasks, sizes of a text's KV in the whole and compressed cache.

    `recall_ratio` is the ratio of geometric means of the key's token probabilities. What was not measured is None
    and missed, and so is a cache that saved neither bytes nor reads: then the gate saw no compression.
    """
    figures: dict[str, Any] = {
        **_bytes(whole, compressed, sizes),
        "perplexity_ratio": _probability_ratio(tasks, compressed, whole, "perplexity"),
        "recall_ratio": _probability_ratio(tasks, whole, compressed, "recall"),
        "agreement": _agreement(tasks, compressed, "agreement"),
        "multi_turn": _agreement(tasks, compressed, "multi_turn"),
    }
    missed = [name for name in ("recall_ratio", "agreement", "multi_turn") if not _at_least(figures, thresholds, name)]
    perplexity = figures["perplexity_ratio"]
    if perplexity is None or perplexity > thresholds.perplexity_ratio:
        missed.insert(0, "perplexity_ratio")
    if (figures["bytes_ratio"] or 0) <= 1 and figures["read_share"] == 1:
        missed.append("bytes_ratio")
    return {
        **figures,
        "passed": not missed,
        "missed": missed,
        "perplexity_whole": _perplexity(tasks, whole),
        "perplexity_compressed": _perplexity(tasks, compressed),
        "recall_by_depth": recall_by_depth(tasks, whole, compressed),
        "tasks": {kind: sum(task.kind == kind for task in tasks) for kind in KINDS},
        "tokens": {kind: sum(len(task.answer) for task in tasks if task.kind == kind) for kind in KINDS},
    }


def recall_by_depth(
    tasks: Sequence[Task], whole: Sequence[Score], compressed: Sequence[Score]
) -> list[dict[str, float]]:
    """For each depth the mean probability of a key's token, by both caches."""
    rows = []
    for depth in sorted({task.group for task in tasks if task.group is not None}):
        row = {"depth": depth}
        for name, scores in (("whole", whole), ("compressed", compressed)):
            found = [s.logprobs for task, s in zip(tasks, scores, strict=True) if task.group == depth]
            row[name] = exp(_mean([value for logprobs in found for value in logprobs]))
        rows.append(row)
    return rows


def _at_least(figures: dict[str, Any], thresholds: Thresholds, name: str) -> bool:
    return figures[name] is not None and figures[name] >= getattr(thresholds, name)


def _bytes(whole: Sequence[Score], compressed: Sequence[Score], sizes: tuple[SizeOf, SizeOf]) -> dict[str, Any]:
    length = sum(score.length for score in compressed)
    full, small = (sum(map(size, scores)) for size, scores in zip(sizes, (whole, compressed), strict=True))
    return {
        "bytes_per_token": small / length if length else None,
        "bytes_ratio": full / small if small else None,
        "read_share": _mean([score.read for score in compressed]) if compressed else 1.0,
    }


def _probability_ratio(
    tasks: Sequence[Task], below: Sequence[Score], above: Sequence[Score], kind: Kind
) -> float | None:
    """Geometric mean token probability of `above` over that of `below`."""
    under, over = _logprobs(tasks, below, kind), _logprobs(tasks, above, kind)
    return exp(_mean(over) - _mean(under)) if under else None


def _perplexity(tasks: Sequence[Task], scores: Sequence[Score]) -> float | None:
    found = _logprobs(tasks, scores, "perplexity")
    return exp(-_mean(found)) if found else None


def _logprobs(tasks: Sequence[Task], scores: Sequence[Score], kind: Kind) -> list[float]:
    pairs = zip(tasks, scores, strict=True)
    return [value for task, score in pairs if task.kind == kind for value in score.logprobs]


def _agreement(tasks: Sequence[Task], scores: Sequence[Score], kind: Kind) -> float | None:
    """Share of the whole cache's greedy tokens that are the compressed cache's greedy tokens too."""
    found = [hit for task, score in zip(tasks, scores, strict=True) if task.kind == kind for hit in score.best]
    return sum(found) / len(found) if found else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
