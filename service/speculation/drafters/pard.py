"""PARD: a draft model that guesses several tokens in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from service.errors import ConfigError
from service.speculation.drafter import DraftRequest, Sampling
from service.speculation.models.chain import Candidates, Shape, best
from service.speculation.models.drafter import ModelDrafter, ModelOptions, target_of
from service.speculation.models.folder import config_of, shared_vocabulary
from service.speculation.models.runner import Runner, shared_runner


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """See Pard."""

    model: str
    depth: int = 12
    min_confidence: float = 0.0
    mask_token: int | None = None


class Pard(ModelDrafter):
    """One pass of a draft model over the new tokens and mask tokens behind them: a draft token at each.

    It needs a model trained for it; with any other the first token is the model's own next token and the rest are
    guesses, whose low confidences cut the chain. It pays more than `draft_model` with the same model, since a chain
    costs one pass. The mask tokens' KV rows are dropped after the pass. Source: PARD (arXiv 2504.18583, note 4.14).

    Parameters: `model`, the draft model's folder, with the target's vocabulary; `depth` (default 12 tokens);
    `branches` (default 1); `min_confidence`, the chance to be accepted below which the chain ends (default 0);
    `mask_token` (default `pard_token` of the model's config.json); `dtype` and `device` as in `draft_model`.
    """

    source = "pard"

    def __init__(
        self, runner: Runner, vocabulary: int, shape: Shape, mask_token: int, sampling: Sampling | None = None
    ) -> None:
        super().__init__(runner, vocabulary, shape, sampling)
        self.mask_token = mask_token

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request; the first one loads the model. Raises ConfigError for an unfit model."""
        chosen = Options(**options)
        vocabulary = shared_vocabulary(chosen.model, target_of(request))
        mask = config_of(chosen.model).get("pard_token") if chosen.mask_token is None else chosen.mask_token
        if mask is None:
            raise ConfigError([f"the config.json of {chosen.model} names no pard_token; it was not trained for pard"])
        runner = shared_runner(chosen.model, chosen.dtype, chosen.device)
        return cls(runner, vocabulary, chosen.shape, int(mask), request.sampling)

    @classmethod
    def chains(cls, drafters: Sequence[Self], shapes: Sequence[Shape]) -> list[list[Candidates]]:
        """One pass for all; the deepest shape decides how many mask tokens everyone gets."""
        first = drafters[0]
        depth = max(shape.depth for shape in shapes)
        lanes = [drafter.lane for drafter in drafters]
        masks = [first.mask_token] * (depth - 1)
        pieces = [[*drafter.lane.missing(drafter.text), *masks] for drafter in drafters]
        logits = first.runner.feed(lanes, pieces, depth)[..., : first.vocabulary]
        for drafter in drafters:
            del drafter.lane.tokens[len(drafter.text) :]
        samplings = [drafter.sampling for drafter in drafters]
        positions = [len(drafter.text) - 1 for drafter in drafters]
        found = best(logits, max(shape.branches for shape in shapes), samplings, positions)
        return [likely(chain[: shape.depth], shape.min_confidence) for chain, shape in zip(found, shapes, strict=True)]


def likely(chain: Sequence[Candidates], bound: float) -> list[Candidates]:
    """The chain up to the first token, itself included, whose chance to be reached and accepted is below `bound`."""
    kept: list[Candidates] = []
    reached = 1.0
    for candidates in chain:
        if reached < bound:
            break
        kept.append(candidates)
        reached *= candidates.chances[0]
    return kept
