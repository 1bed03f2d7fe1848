"""SGLang's speculation arguments for each algorithm."""

from __future__ import annotations

from service.profiles.algorithms import TRAITS, Traits, names_where
from service.profiles.schema import Speculation

DRAFT_MODEL_ALGORITHMS = names_where(lambda traits: traits.source == "model")
"""Algorithms that cannot do without `draft_model`."""
ADAPTIVE_STEPS = (1, 3, 5, 7)
"""Steps that `--speculative-adaptive` can start with, by SGLang's own table (speculative/adaptive_spec_params.py)."""
_USUAL_TREE_STEPS = 3


def traits_of(speculation: Speculation) -> Traits:
    """The limits of the algorithm."""
    return TRAITS[speculation.algorithm]


def uses_draft_model(speculation: Speculation) -> bool:
    """Whether the engine runs a draft model, the target's own heads included."""
    return traits_of(speculation).source in ("model", "heads")


def drafter_names(speculation: Speculation) -> tuple[str, ...]:
    """The drafters of algorithm `specserve`, at least one; empty for others."""
    return (speculation.drafters or (speculation.drafter,)) if speculation.algorithm == "specserve" else ()


def draft_label(speculation: Speculation) -> str:
    """What drafts, for figures: model, adapter or drafters; empty for nothing nameable."""
    return speculation.draft_model or speculation.adapter or "+".join(drafter_names(speculation))


def grows_by_steps(speculation: Speculation) -> bool:
    """Whether `steps` and `topk` shape the draft; UNO takes them for trees only."""
    return traits_of(speculation).shape == "steps" or (speculation.algorithm == "uno" and speculation.topk > 1)


def tree_candidates(steps: int, topk: int) -> int:
    """Draft nodes that SGLang chooses from: `topk` in the first step, `topk` squared in each further one."""
    return topk + (steps - 1) * topk * topk


def uno_candidates(steps: int, topk: int) -> int:
    """The most draft nodes of UNO's tree: what `steps` levels hold, and what its list of parents holds."""
    level, nodes = 1, 0
    for _ in range(steps):
        level *= topk
        nodes += level
    return min(nodes, topk * (steps - 1) + 1)


def draft_candidates(speculation: Speculation, steps: int) -> int:
    """Draft nodes that a tree of so many steps can hold."""
    count = uno_candidates if speculation.algorithm == "uno" else tree_candidates
    return count(steps, speculation.topk)


def draft_steps(speculation: Speculation) -> int:
    """Steps of the draft model: as told, else what `draft_tokens` nodes need."""
    if speculation.steps is not None:
        return speculation.steps
    drafts = speculation.draft_tokens - 1
    if speculation.topk == 1:
        return drafts
    steps = min(_USUAL_TREE_STEPS, drafts)
    while steps < drafts and draft_candidates(speculation, steps) < drafts:
        steps += 1
    return steps


def deepest_draft(speculation: Speculation) -> int:
    """The most draft tokens that one verify step can accept: one a level of the tree."""
    drafts = speculation.draft_tokens - 1
    if speculation.adaptive:
        return max(ADAPTIVE_STEPS)
    return min(draft_steps(speculation), drafts) if grows_by_steps(speculation) else drafts


def speculation_args(speculation: Speculation, target_path: str, draft_path: str | None) -> list[str]:
    """The arguments; empty for `none`. `draft_path` is the draft model or UNO's adapter.

    Raises ValueError when one is needed and not given.
    """
    traits = traits_of(speculation)
    if traits.sglang is None:
        return []
    args = ["--speculative-algorithm", traits.sglang]
    args += ["--speculative-num-draft-tokens", str(speculation.draft_tokens)]
    args += _source_args(speculation, target_path, draft_path)
    if grows_by_steps(speculation):
        args += ["--speculative-num-steps", str(draft_steps(speculation))]
        args += ["--speculative-eagle-topk", str(speculation.topk)]
    if speculation.adaptive:
        args.append("--speculative-adaptive")
    return args


def draft_attention_args(speculation: Speculation, backend: str) -> list[str]:
    """The draft model's attention backend, for algorithms that have a draft model."""
    return ["--speculative-draft-attention-backend", backend] if uses_draft_model(speculation) else []


def _source_args(speculation: Speculation, target_path: str, draft_path: str | None) -> list[str]:
    source = traits_of(speculation).source
    if source in ("model", "adapter") and draft_path is None:
        needed = "a draft model" if source == "model" else "an adapter"
        raise ValueError(f"algorithm {speculation.algorithm!r} needs {needed}")
    if source == "adapter":
        return ["--uno-lora-path", str(draft_path)]
    # SGLang finds DSPARK's bundled heads itself; multi-token-prediction heads it finds for some families only.
    own_heads = target_path if speculation.algorithm == "nextn" else None
    path = draft_path or own_heads
    return ["--speculative-draft-model-path", path] if path and source in ("model", "heads") else []
