"""SGLang's speculation arguments for each algorithm."""

from __future__ import annotations

from service.profiles.schema import Algorithm, Speculation

_SGLANG_NAMES: dict[Algorithm, str] = {
    "specserve": "SPECSERVE",
    "ngram": "NGRAM",
    "standalone": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
}
DRAFT_MODEL_ALGORITHMS: tuple[Algorithm, ...] = ("standalone", "eagle", "eagle3")
_USUAL_TREE_STEPS = 3


def uses_draft_model(speculation: Speculation) -> bool:
    """Whether the algorithm runs a draft model."""
    return speculation.algorithm in DRAFT_MODEL_ALGORITHMS


def tree_candidates(steps: int, topk: int) -> int:
    """Draft nodes that SGLang chooses from: `topk` in the first step, `topk` squared in each further one."""
    return topk + (steps - 1) * topk * topk


def draft_steps(speculation: Speculation) -> int:
    """Steps of the draft model: as told, else what `draft_tokens` nodes need."""
    if speculation.steps is not None:
        return speculation.steps
    drafts = speculation.draft_tokens - 1
    if speculation.topk == 1:
        return drafts
    steps = min(_USUAL_TREE_STEPS, drafts)
    while tree_candidates(steps, speculation.topk) < drafts:
        steps += 1
    return steps


def speculation_args(speculation: Speculation, draft_path: str | None) -> list[str]:
    """The arguments; empty for `none`. Raises ValueError when a needed draft model is not given."""
    if speculation.algorithm == "none":
        return []
    args = ["--speculative-algorithm", _SGLANG_NAMES[speculation.algorithm]]
    args += ["--speculative-num-draft-tokens", str(speculation.draft_tokens)]
    if uses_draft_model(speculation):
        if draft_path is None:
            raise ValueError(f"algorithm {speculation.algorithm!r} needs a draft model")
        args += ["--speculative-draft-model-path", draft_path]
        args += ["--speculative-num-steps", str(draft_steps(speculation))]
        args += ["--speculative-eagle-topk", str(speculation.topk)]
    return args


def draft_attention_args(speculation: Speculation, backend: str) -> list[str]:
    """The draft model's attention backend, for algorithms that have a draft model."""
    return ["--speculative-draft-attention-backend", backend] if uses_draft_model(speculation) else []
