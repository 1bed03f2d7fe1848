"""Rules about target and draft model together, as far as their config.json is at hand.

From SGLang 0.5.23: `speculative/standalone_worker_v2.py` (one vocabulary), `arg_groups/speculative_hook.py` (Gemma 4
assistants become Frozen-KV MTP), `configs/model_config.py` (own heads), and
`model_executor/model_runner_components/attention_backend_setup.py` (hidden states that a target must show).
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.architectures import (
    HAVE_OWN_HEADS,
    HAVE_SEVERAL_HEAD_LAYERS,
    SHOW_DFLASH_LAYERS,
    SHOW_DSPARK_LAYERS,
    SHOW_EAGLE3_LAYERS,
    draft_kind,
)
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import Algorithm

_SHOWS: dict[Algorithm, frozenset[str]] = {
    "eagle3": SHOW_EAGLE3_LAYERS,
    "dflash": SHOW_DFLASH_LAYERS,
    "dspark": SHOW_DFLASH_LAYERS | SHOW_DSPARK_LAYERS,
}
_DRAFTS: dict[Algorithm, tuple[str, ...]] = {
    "standalone": ("model",),
    "eagle": ("eagle",),
    "eagle3": ("eagle3",),
    "nextn": ("heads", "model"),
    "frozen_kv_mtp": ("frozen_kv_mtp",),
    "dflash": ("dflash",),
    "dspark": ("dspark",),
}


def vocabularies_match(case: Case) -> Iterator[Finding]:
    """A whole draft model must know the target's tokens."""
    target, draft = case.facts.target, case.facts.draft
    if case.spec.algorithm != "standalone" or target is None or draft is None:
        return
    if None not in (target.vocab_size, draft.vocab_size) and target.vocab_size != draft.vocab_size:
        yield error(
            "speculation.draft_model",
            f"it has {draft.vocab_size} tokens, the target {target.vocab_size}: name a draft model of the same family",
        )


def target_shows_its_layers(case: Case) -> Iterator[Finding]:
    """Drafters that read hidden states of inner layers need a target class that gives them out."""
    known = _SHOWS.get(case.spec.algorithm)
    name = case.facts.target.architecture if case.facts.target else None
    if known is not None and name is not None and name not in known:
        yield warning(
            "target.model",
            f"SGLang 0.5.23 seems to have no {case.spec.algorithm} support in {name}, and would stop at start: "
            "try it on a small machine first, or set standalone",
        )


def target_has_own_heads(case: Case) -> Iterator[Finding]:
    """Without a draft model the heads must be in the target's checkpoint."""
    target = case.facts.target
    if case.spec.draft_model is not None or target is None or target.architecture is None:
        return
    field, name = "speculation.draft_model", target.architecture
    if case.spec.algorithm == "nextn" and name not in HAVE_OWN_HEADS:
        yield error(field, f"{name} brings no heads that predict further tokens: name them, or set eagle or standalone")
    if case.spec.algorithm == "dspark" and target.block_size is None:
        yield warning(
            field, "the target's config.json tells of no dspark heads: name a draft model, or look in its folder"
        )


def head_layers_fit(case: Case) -> Iterator[Finding]:
    """SGLang runs several layers of heads as a chain without adaptive steps."""
    name = case.facts.target.architecture if case.facts.target else None
    if case.spec.algorithm not in ("eagle", "nextn") or name not in HAVE_SEVERAL_HEAD_LAYERS:
        return
    if case.spec.adaptive:
        yield error(
            "speculation.adaptive", f"{name} has several layers of heads, whose steps are fixed: remove adaptive"
        )
    if case.runtime.pp > 1:
        yield error("runtime.pp", f"{name} has several layers of heads, which draft in one stage: set pp 1")


def draft_is_of_the_kind(case: Case) -> Iterator[Finding]:
    """A draft of another kind fails late, or runs as another algorithm than the profile says."""
    wanted = _DRAFTS.get(case.spec.algorithm)
    name = case.facts.draft.architecture if case.facts.draft else None
    if wanted is None or name is None or case.spec.draft_model is None:
        return
    kind = draft_kind(name)
    if kind in wanted:
        return
    if kind == "model" and case.spec.algorithm in ("eagle", "eagle3", "dspark"):
        # Converted checkpoints can keep the class name of the model that they were made from.
        yield warning("speculation.draft_model", f"{name} looks like a whole model: set standalone if it is one")
        return
    fitting = next(algorithm for algorithm, kinds in _DRAFTS.items() if kind in kinds)
    yield error(
        "speculation.algorithm", f"{name} is no draft for {case.spec.algorithm}: set {fitting}, or name another"
    )


RULES: tuple[Rule, ...] = (
    vocabularies_match,
    target_shows_its_layers,
    target_has_own_heads,
    head_layers_fit,
    draft_is_of_the_kind,
)
