"""Draft model: a small causal language model writes ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from service.speculation.drafter import DraftRequest
from service.speculation.models.drafter import ModelDrafter, ModelOptions, target_of
from service.speculation.models.folder import shared_vocabulary
from service.speculation.models.runner import shared_runner


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """See DraftModel."""

    model: str
    depth: int = 6


class DraftModel(ModelDrafter):
    """Greedy chain of a separate model, with siblings as leaves where it is unsure.

    It pays where the draft model is many times faster than the target and often agrees with it; a model of a
    similar size costs more than it saves. It keeps its own KV rows, cut back to the committed text after every step.
    Confidences are its probabilities at temperature 1. Source: arXiv 2211.17192, SGLang's STANDALONE; siblings and
    early stop as in SWIFT (arXiv 2410.06916).

    Parameters: `model`, the draft model's folder, with the target's vocabulary; `depth` of the chain (default 6
    tokens); `branches`, most siblings at one place (default 1: a chain); `min_confidence`, the chance to be
    accepted below which nothing is drafted behind a token (default 0.3); `dtype` (default the file's) and `device`
    (default CUDA where there is one).
    """

    source = "draft_model"

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request; the first one loads the model. Raises ConfigError for an unfit model."""
        chosen = Options(**options)
        vocabulary = shared_vocabulary(chosen.model, target_of(request))
        return cls(shared_runner(chosen.model, chosen.dtype, chosen.device), vocabulary, chosen.shape, request.sampling)
