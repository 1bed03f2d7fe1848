"""What drafters that run a model have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from service.errors import ConfigError
from service.speculation.drafter import Drafter, DraftRequest, Sampling
from service.speculation.models.chain import Candidates, Shape, draft_chains, tree_of
from service.speculation.models.runner import Runner
from service.speculation.tree import DraftTree


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of every drafter with a model. Raises ValueError for impossible ones.

    `depth` of the chain in tokens; `branches`, most siblings at one place (1: a chain); `min_confidence`, the chance
    to be accepted below which nothing is drafted behind a token; `dtype` and `device` of the model (None: CUDA where
    there is one).
    """

    depth: int
    branches: int = 1
    min_confidence: float = 0.3
    dtype: str = "auto"
    device: str | None = None

    @property
    def shape(self) -> Shape:
        """How far and how wide to draft."""
        return Shape(self.depth, self.branches, self.min_confidence)


class ModelDrafter(Drafter):
    """Drafts with a model; requests of one runner are drafted for in the same passes.

    `propose` and `propose_all` block for the model's passes: milliseconds to tens of them a draft token, and longer
    for the first proposal, which reads the prompt. `vocabulary` is the number of token ids that may be proposed;
    with `sampling`, tokens are drawn with the target's own noise.
    """

    source = ""

    def __init__(self, runner: Runner, vocabulary: int, shape: Shape, sampling: Sampling | None = None) -> None:
        self.runner = runner
        self.vocabulary = vocabulary
        self.shape = shape
        self.lane = runner.lane()
        self.text: list[int] = []
        self.sampling = sampling

    def observe(self, tokens: Sequence[int]) -> None:
        """Append the tokens; the model reads them when it drafts next."""
        self.text.extend(tokens)

    def propose(self, budget: int) -> DraftTree:
        """The tree of this request alone."""
        return self.propose_all([self], [budget])[0]

    @classmethod
    def propose_all(cls, drafters: Sequence[Self], budgets: Sequence[int]) -> list[DraftTree]:
        """A tree for each drafter; empty without text, and where the model's context is full. Mutates them."""
        trees = [DraftTree() for _ in drafters]
        groups: dict[Runner, list[int]] = {}
        for i, (drafter, budget) in enumerate(zip(drafters, budgets, strict=True)):
            if drafter.text and drafter.depth_for(budget) > 0:
                groups.setdefault(drafter.runner, []).append(i)
        for group in groups.values():
            group.sort(key=lambda i: drafters[i].lane.slot)  # neighbours in the KV pool are read without a copy
            members = [drafters[i] for i in group]
            shapes = [replace(drafters[i].shape, depth=drafters[i].depth_for(budgets[i])) for i in group]
            for i, shape, chain in zip(group, shapes, cls.chains(members, shapes), strict=True):
                trees[i] = tree_of(chain, shape, budgets[i], drafters[i].source)
        return trees

    @classmethod
    def chains(cls, drafters: Sequence[Self], shapes: Sequence[Shape]) -> list[list[Candidates]]:
        """Chains of candidates behind the texts of drafters with the same runner; token by token, unless overridden."""
        lanes, texts = [drafter.lane for drafter in drafters], [drafter.text for drafter in drafters]
        samplings = [drafter.sampling for drafter in drafters]
        return draft_chains(drafters[0].runner, lanes, texts, shapes, samplings, drafters[0].vocabulary)

    def depth_for(self, budget: int) -> int:
        """Tokens of the longest chain that budget and the model's context allow; 0 or less for none."""
        return min(self.shape.depth, budget, self.runner.limit - len(self.text))


def target_of(request: DraftRequest) -> str:
    """The folder of the target's weights. Raises ConfigError when the engine does not tell it."""
    if request.model is None:
        raise ConfigError(["this drafter must compare its model with the target's, but the target's folder is unknown"])
    return request.model
