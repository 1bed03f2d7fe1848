"""From a draft model's probabilities to a tree of draft tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from service.speculation.drafter import Sampling
from service.speculation.models.kv_pool import Lane
from service.speculation.models.runner import Runner
from service.speculation.noise import gumbel
from service.speculation.tree import ROOT, DraftTree, TreeBuilder

WIDTHS = ((0.95, 0.3), (0.8, 0.5), (0.5, 0.8), (0.0, 1.0))
"""Share of the allowed siblings used by the best token's probability: few where the model is sure (SWIFT, note 4.4)."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The model's best tokens for one place of the text, the first choice first, and the chances that they hold."""

    tokens: Sequence[int]
    chances: Sequence[float]


@dataclass(frozen=True, slots=True)
class Shape:
    """How far and how wide to draft.

    `depth` is the longest chain in tokens; `branches` the most siblings at one place, 1 for a chain; no token is
    drafted behind one whose chance to be reached and accepted is below `min_confidence`.
    """

    depth: int
    branches: int
    min_confidence: float

    def __post_init__(self) -> None:
        if self.depth < 1 or self.branches < 1 or not 0 <= self.min_confidence <= 1:
            raise ValueError(
                f"needs depth >= 1, branches >= 1 and 0 <= min_confidence <= 1, got {self.depth}, {self.branches}, "
                f"{self.min_confidence}"
            )


def best(
    logits: torch.Tensor, count: int, samplings: Sequence[Sampling | None], positions: Sequence[int]
) -> list[list[Candidates]]:
    """The `count` best tokens of every row of `logits` [batch, rows, vocabulary].

    For a request that draws they are drawn without replacement, by Gumbel top-k with the noise that the target draws
    with: its token is then the first candidate wherever both distributions agree, and the others are the likeliest
    second choices (siblings of RSD, arXiv 2402.14160). `positions` [batch] is where the first row's token stands.
    """
    count = min(count, logits.shape[-1])
    return [
        [
            _greedy(row, count) if sampling is None else _drawn(row, count, sampling, position + r)
            for r, row in enumerate(rows)
        ]
        for rows, sampling, position in zip(logits.float(), samplings, positions, strict=True)
    ]


def _greedy(row: torch.Tensor, count: int) -> Candidates:
    chances, tokens = row.softmax(-1).topk(count)
    return Candidates(tokens.tolist(), chances.tolist())


def _drawn(row: torch.Tensor, count: int, sampling: Sampling, position: int) -> Candidates:
    logprobs = (row / sampling.temperature).log_softmax(-1)
    tokens = (logprobs.double() + gumbel(sampling.seed, position, len(row))).topk(count).indices
    chances = logprobs[tokens].exp().tolist()
    # The first one is drawn by both with the same noise: it holds where they agree, however unlikely the token.
    return Candidates(tokens.tolist(), [float(logprobs.max().exp()), *chances[1:]])


def draft_chains(
    runner: Runner,
    lanes: Sequence[Lane],
    texts: Sequence[Sequence[int]],
    shapes: Sequence[Shape],
    samplings: Sequence[Sampling | None],
    vocabulary: int,
) -> list[list[Candidates]]:
    """Chains of first choices behind each text, all requests in one pass a token; blocks, mutates the lanes.

    A request leaves the batch when its chain is deep enough or too unlikely to go on.
    """
    chains: list[list[Candidates]] = [[] for _ in lanes]
    reached = [1.0] * len(lanes)
    pieces = {i: lane.missing(text) for i, (lane, text) in enumerate(zip(lanes, texts, strict=True))}
    branches = max(shape.branches for shape in shapes)
    while pieces:
        logits = runner.feed([lanes[i] for i in pieces], list(pieces.values()))[..., :vocabulary]
        positions = [len(texts[i]) - 1 + len(chains[i]) for i in pieces]
        candidates = best(logits, branches, [samplings[i] for i in pieces], positions)
        found = dict(zip(pieces, candidates, strict=True))
        pieces = {}
        for i, (chosen,) in found.items():
            chains[i].append(chosen)
            reached[i] *= chosen.chances[0]
            if len(chains[i]) < shapes[i].depth and reached[i] >= shapes[i].min_confidence:
                pieces[i] = [chosen.tokens[0]]
    return chains


def tree_of(chain: Iterable[Candidates], shape: Shape, budget: int, source: str) -> DraftTree:
    """The `budget` most likely nodes among the chain of best tokens and, as leaves, their siblings."""
    builder = TreeBuilder(limit=shape.depth * shape.branches, source=source)
    spine = ROOT
    for candidates in chain:
        wide = width(candidates.chances[0], shape.branches)
        parent = spine
        spine = builder.add_chain(parent, candidates.tokens[:1], candidates.chances[0])
        for token, chance in zip(candidates.tokens[1:wide], candidates.chances[1:wide], strict=True):
            builder.add(parent, token, chance)
    tree = builder.build()
    chances, depths = tree.chances() or (), tree.depths()
    # A parent is never less likely than its child, and goes first where both are alike.
    order = sorted(range(len(tree)), key=lambda node: (-chances[node], depths[node]))
    return tree.kept(order[:budget])


def width(confidence: float, branches: int) -> int:
    """How many siblings to consider where the best token has this probability."""
    share = next(share for bound, share in WIDTHS if confidence >= bound)
    return min(branches, math.ceil(share * branches))
