"""Rules about drafts."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.speculation_args import draft_steps, tree_candidates, uses_draft_model

_PAGED_TREE_BACKENDS = ("flashinfer", "fa3", "triton")


def draft_model_is_given(case: Case) -> Iterator[Finding]:
    """Algorithms with a draft model need one, the others take none."""
    algorithm, given = case.spec.algorithm, case.spec.draft_model is not None
    if uses_draft_model(case.spec) and not given:
        yield error("speculation.draft_model", f"algorithm {algorithm} needs a draft model: name one")
    if given and not uses_draft_model(case.spec):
        yield error(
            "speculation.draft_model",
            f"algorithm {algorithm} uses no draft model: remove it, or set standalone, eagle or eagle3",
        )


def tree_settings_belong_to_draft_models(case: Case) -> Iterator[Finding]:
    """`topk` and `steps` would be ignored elsewhere."""
    if uses_draft_model(case.spec):
        return
    if case.spec.topk != 1:
        yield error("speculation.topk", f"algorithm {case.spec.algorithm} has no draft model: remove topk")
    if case.spec.steps is not None:
        yield error("speculation.steps", f"algorithm {case.spec.algorithm} has no draft model: remove steps")


def tree_can_be_filled(case: Case) -> Iterator[Finding]:
    """Steps and branches must yield exactly (chain) or at least (tree) the drafts that are verified."""
    if not uses_draft_model(case.spec):
        return
    field, topk = "speculation.draft_tokens", case.spec.topk
    steps, drafts = draft_steps(case.spec), case.spec.draft_tokens - 1
    if topk == 1 and steps != drafts:
        yield error(field, f"a chain of {steps} steps verifies {steps + 1} tokens: set {steps + 1}, or remove steps")
    elif tree_candidates(steps, topk) < drafts:
        yield error(
            field,
            f"{steps} steps with topk {topk} yield {tree_candidates(steps, topk)} drafts, not {drafts}: "
            "lower draft_tokens, or raise steps or topk",
        )


def trees_need_single_token_pages(case: Case) -> Iterator[Finding]:
    """A branch inside a page needs a copy of the page, which few attention backends make."""
    field, spec, backend = "kv.page_size", case.spec, case.runtime.attention_backend
    if case.kv.page_size == 1 or spec.algorithm == "none":
        return
    if case.on_cpu:
        yield error(field, "speculation on a CPU needs page_size 1")
    elif spec.algorithm == "ngram" and backend != "flashinfer":
        yield error(field, "ngram drafts a tree: set page_size 1, or attention_backend flashinfer")
    elif spec.topk > 1 and backend not in _PAGED_TREE_BACKENDS:
        yield error(field, f"topk above 1 needs page_size 1, or attention_backend {', '.join(_PAGED_TREE_BACKENDS)}")


def specserve_needs_the_cpu_backend(case: Case) -> Iterator[Finding]:
    """Its ragged verify batches are read by our CPU attention only."""
    if case.spec.algorithm == "specserve" and not case.on_cpu:
        yield error(
            "speculation.algorithm",
            "algorithm specserve runs on CPU engines only for now: on a GPU set ngram, standalone, eagle or eagle3",
        )


def drafter_is_known(case: Case) -> Iterator[Finding]:
    """A drafter must be registered."""
    known = case.facts.drafters
    if case.spec.algorithm == "specserve" and known is not None and case.spec.drafter not in known:
        yield error(
            "speculation.drafter",
            f"unknown drafter {case.spec.drafter!r}: use one of {', '.join(sorted(known))}",
        )


def ngram_corpus_is_shared(case: Case) -> Iterator[Finding]:
    """SGLang's corpus knows no clients."""
    if case.spec.algorithm == "ngram":
        yield warning(
            "speculation.algorithm",
            "SGLang's ngram corpus is shared by all requests: speed reveals what other clients wrote, and "
            "repeated benchmarks get faster; where clients must not meet, use specserve with prompt_lookup",
        )


def penalties_are_approximate(case: Case) -> Iterator[Finding]:
    """SGLang applies a step's penalties to all its draft tokens alike."""
    if case.spec.algorithm not in ("none", "specserve"):
        yield warning(
            "speculation.algorithm",
            f"{case.spec.algorithm} is lossless but for requests with penalties or min_new_tokens, whose counts lag "
            "by a step; specserve does not draft for those",
        )


RULES: tuple[Rule, ...] = (
    draft_model_is_given,
    tree_settings_belong_to_draft_models,
    tree_can_be_filled,
    trees_need_single_token_pages,
    specserve_needs_the_cpu_backend,
    drafter_is_known,
    ngram_corpus_is_shared,
    penalties_are_approximate,
)
