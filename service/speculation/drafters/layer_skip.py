"""Layer skip (SWIFT): the target itself without some of its sublayers drafts for the whole target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from service.speculation.drafter import DraftRequest
from service.speculation.models.drafter import ModelDrafter, ModelOptions, target_of
from service.speculation.models.folder import vocabulary_size
from service.speculation.models.loading import load_model
from service.speculation.models.runner import Runner
from service.speculation.models.skipping import SkipSet, evenly_spaced, stored, without


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """See LayerSkip."""

    skip: float = 0.45
    skip_file: str | None = None
    whole_prompt: bool = True
    depth: int = 4
    min_confidence: float = 0.5


class LayerSkip(ModelDrafter):
    """Greedy chain of the target's own layers, evenly spaced ones or a searched set left out.

    No second model is needed, but a draft token still costs the share of the target that is left, so the gain is
    small at best and needs a target with many superfluous layers; small models have none. Source: SWIFT (arXiv
    2410.06916, note 4.4), with the skip set stored per model instead of searched in every request
    (`service.speculation.layer_search`).

    The drafter cannot see the engine's KV rows and keeps its own. Against SWIFT, which shares the target's, that
    costs: the weights in this process once more (mapped from the file, unless converted), KV rows of the kept
    attention layers, the prompt read a second time, and a drafted token's rows come from the shortened model where
    SWIFT's verification has replaced them with exact ones. The prompt is read by the whole model (`whole_prompt`),
    because skipping in prefill is known to ruin acceptance.

    Parameters: `skip`, share of the interior layers left out evenly (default 0.45); `skip_file`, a folder with a
    searched set for this model, instead; `whole_prompt` (default true); `depth` (default 4 tokens), `branches`
    (default 1), `min_confidence` (default 0.5), `dtype` and `device` as in `draft_model`.
    """

    source = "layer_skip"

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request; the first one loads the model. Raises ConfigError for an unfit model."""
        chosen = Options(**options)
        target = target_of(request)
        runner = shortened_runner(
            target, chosen.skip, chosen.skip_file, chosen.whole_prompt, chosen.dtype, chosen.device
        )
        return cls(runner, vocabulary_size(target), chosen.shape, request.sampling)


@cache
def shortened_runner(
    folder: str, skip: float, skip_file: str | None, whole_prompt: bool, dtype: str, device: str | None
) -> Runner:
    """The runner that all requests with these options share; the first call loads the model and the skip set."""
    model = load_model(folder, dtype, device)
    left_out = skip_set(folder, model.config.num_hidden_layers, skip, skip_file)
    return Runner(without(model, left_out), model if whole_prompt else None)


def skip_set(folder: str, layers: int, skip: float, skip_file: str | None) -> SkipSet:
    """The stored set where a folder with sets is named, else an even one. Raises ConfigError when none is stored."""
    return evenly_spaced(layers, skip) if skip_file is None else stored(skip_file, folder).skip
