"""Rules about what drafts, and how much: draft models, adapters, steps, branches and widths.

Limits from SGLang 0.5.23, `arg_groups/speculative_hook.py`, one `_handle_*` function an algorithm; adaptive steps
from `speculative/adaptive_spec_params.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.algorithms import listed, names_where
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.speculation_args import (
    ADAPTIVE_STEPS,
    DRAFT_MODEL_ALGORITHMS,
    draft_candidates,
    draft_steps,
    grows_by_steps,
    uses_draft_model,
)

_WIDEST = 64
_UNO_FRONTIER = 2048
_STEP_ALGORITHMS = listed(names_where(lambda traits: traits.shape == "steps"))


def draft_model_is_given(case: Case) -> Iterator[Finding]:
    """Algorithms with a draft model need one, the others take none."""
    field, algorithm, given = "speculation.draft_model", case.spec.algorithm, case.spec.draft_model is not None
    if case.traits.source == "model" and not given:
        yield error(field, f"algorithm {algorithm} needs a draft model: name one")
    if given and algorithm == "uno":
        yield error(field, "algorithm uno drafts with the target itself: remove it, and name the LoRA in adapter")
    elif given and not uses_draft_model(case.spec):
        others = listed(DRAFT_MODEL_ALGORITHMS)
        yield error(field, f"algorithm {algorithm} uses no draft model: remove it, or set {others}")


def adapter_belongs_to_uno(case: Case) -> Iterator[Finding]:
    """UNO cannot draft without its LoRA; nobody else reads one."""
    field, algorithm, given = "speculation.adapter", case.spec.algorithm, case.spec.adapter is not None
    if algorithm == "uno" and not given:
        yield error(field, "algorithm uno needs the LoRA that was trained to draft: name its folder or hub name")
    if given and algorithm != "uno":
        yield error(field, f"algorithm {algorithm} uses no adapter: remove it, or set algorithm uno")


def steps_and_branches_apply(case: Case) -> Iterator[Finding]:
    """`topk` and `steps` would be ignored elsewhere."""
    algorithm, shape = case.spec.algorithm, case.traits.shape
    if grows_by_steps(case.spec):
        return
    why = "drafts one block, a chain, in a single pass" if shape == "block" else "has no draft steps"
    if case.spec.topk != 1:
        yield error("speculation.topk", f"algorithm {algorithm} {why}: remove topk, or set {_STEP_ALGORITHMS}")
    if case.spec.steps is not None:
        yield error("speculation.steps", f"algorithm {algorithm} {why}: remove steps, or set {_STEP_ALGORITHMS}")


def tree_can_be_filled(case: Case) -> Iterator[Finding]:
    """Steps and branches must yield exactly (chain) or at least (tree) the drafts that are verified."""
    if not grows_by_steps(case.spec) or case.spec.adaptive:
        return
    field, topk = "speculation.draft_tokens", case.spec.topk
    steps, drafts = draft_steps(case.spec), case.spec.draft_tokens - 1
    candidates = draft_candidates(case.spec, steps)
    if topk == 1 and steps != drafts:
        yield error(field, f"a chain of {steps} steps verifies {steps + 1} tokens: set {steps + 1}, or remove steps")
    elif topk > 1 and candidates < drafts:
        yield error(
            field,
            f"{steps} steps with topk {topk} yield {candidates} drafts, not {drafts}: "
            "lower draft_tokens, or raise steps or topk",
        )


def width_is_possible(case: Case) -> Iterator[Finding]:
    """How many nodes one verify step can take."""
    field, spec = "speculation.draft_tokens", case.spec
    if spec.algorithm != "uno":
        if spec.draft_tokens > _WIDEST:
            yield error(field, f"algorithm {spec.algorithm} verifies at most {_WIDEST} tokens a step: set at most that")
        return
    if spec.topk > 1 and spec.draft_tokens * spec.topk > _UNO_FRONTIER:
        yield error(field, f"uno takes draft_tokens times topk up to {_UNO_FRONTIER}: lower one of them")
    if spec.topk > 1 and draft_steps(spec) >= spec.draft_tokens:
        yield error(field, f"uno's tree of {draft_steps(spec)} steps needs more tokens than steps: lower steps")


def adaptive_steps_are_possible(case: Case) -> Iterator[Finding]:
    """SGLang turns adaptive steps off without an error where it cannot have them."""
    field, spec = "speculation.adaptive", case.spec
    if not spec.adaptive:
        return
    if not case.traits.adaptive:
        able = listed(names_where(lambda traits: traits.adaptive))
        yield error(field, f"SGLang adapts the steps of {able} only: remove adaptive, or set one of them")
    elif spec.topk != 1:
        yield error(field, "adaptive steps need a chain: set topk 1, or remove adaptive")
    elif case.runtime.attention_dp > 1:
        yield error(field, "attention groups do not agree on adaptive steps: set attention_dp 1, or remove adaptive")
    elif case.runtime.pp > 1:
        yield error(field, "pipeline stages do not follow adaptive steps: set pp 1, or remove adaptive")
    elif draft_steps(spec) not in ADAPTIVE_STEPS or draft_steps(spec) != spec.draft_tokens - 1:
        widths = listed(tuple(str(steps + 1) for steps in ADAPTIVE_STEPS))
        yield error("speculation.draft_tokens", f"adaptive steps start with draft_tokens {widths}, and steps unset")
    else:
        yield warning(
            field,
            "adaptive looks at acceptance, never at time, and captures graphs for every number of steps: measure it "
            "under load with `specserve bench`",
        )


def block_is_the_trained_one(case: Case) -> Iterator[Finding]:
    """A block drafter was trained for one width; DSPARK is refused with another one, DFLASH drafts badly."""
    field, spec = "speculation.draft_tokens", case.spec
    shape = case.facts.draft if spec.draft_model is not None else case.facts.target
    trained = shape.block_size if shape is not None else None
    if spec.algorithm == "dflash" and trained is not None and spec.draft_tokens != trained:
        yield warning(field, f"the draft model was trained with blocks of {trained}: set {trained}")
    if spec.algorithm != "dspark":
        return
    if trained is None:
        yield warning(
            field,
            f"SGLang refuses a dspark draft whose block is not {spec.draft_tokens - 1} tokens (usual is 7, that is "
            "draft_tokens 8): set the block_size of its config.json plus one",
        )
    elif spec.draft_tokens != trained + 1:
        yield error(field, f"the draft model was trained with blocks of {trained}: set {trained + 1}")


RULES: tuple[Rule, ...] = (
    draft_model_is_given,
    adapter_belongs_to_uno,
    steps_and_branches_apply,
    tree_can_be_filled,
    width_is_possible,
    adaptive_steps_are_possible,
    block_is_the_trained_one,
)
