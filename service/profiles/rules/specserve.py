"""Rules about our own algorithm: drafters, controllers and what they may learn."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.algorithms import listed
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import Speculation
from service.profiles.speculation_args import drafter_names

_GPU_BACKENDS = ("triton", "flashinfer")
"""Those of SGLang 0.5.23 that read the mask of any tree of `NgramVerifyInput`, whatever `topk` is."""
_CPU_DRAFTERS = ("draft_model", "pard", "layer_skip")
"""They run a model of their own on the host."""


def gpus_verify_padded_trees(case: Case) -> Iterator[Finding]:
    """The GPU path of verification: written for SGLang's mask-reading backends, proved on a CPU."""
    if case.spec.algorithm != "specserve" or case.on_cpu:
        return
    backend = case.runtime.attention_backend
    if backend is not None and backend not in _GPU_BACKENDS:
        yield error(
            "runtime.attention_backend",
            f"{backend} does not read the trees of algorithm specserve: remove it, or set {listed(_GPU_BACKENDS)}",
        )
    if case.kv.page_size != 1:
        yield error("kv.page_size", "algorithm specserve moves single tokens: set page_size 1")
    for name in set(drafter_names(case.spec)) & set(_CPU_DRAFTERS):
        yield error(
            "speculation.drafters" if case.spec.drafters else "speculation.drafter",
            f"{name} runs its model on the host, which would hold up a GPU: set a drafter that reads the text, "
            "or algorithm standalone",
        )
    yield warning(
        "speculation.algorithm",
        "the padded verify batches of algorithm specserve are tested on CPUs only: before you trust a GPU with "
        "them, run `specserve bench lossless` and `specserve bench matrix` on it",
    )


def drafters_are_known(case: Case) -> Iterator[Finding]:
    """Drafters must be registered."""
    field = "speculation.drafters" if case.spec.drafters else "speculation.drafter"
    yield from _unknown(field, "drafter", drafter_names(case.spec), case.facts.drafters)


def drafters_make_a_choice(case: Case) -> Iterator[Finding]:
    """Several drafters are arms of a controller: each once, and `none` is every controller's to choose anyway."""
    field, names = "speculation.drafters", case.spec.drafters
    if case.spec.algorithm != "specserve" or not names:
        return
    if len(set(names)) != len(names):
        yield error(field, f"{_repeated(names)} stands twice: name each drafter once")
    if "none" in names and len(names) > 1:
        yield error(field, "controllers can always draft nothing: remove none")
    if case.spec.drafter not in (*names, Speculation().drafter):
        yield error("speculation.drafter", "drafters stands in place of drafter: remove one of them")
    if len(names) > 1 and case.spec.controllers[-1] == "fixed":
        yield warning(
            "speculation.controllers",
            f"fixed uses {names[0]} alone: put a controller that chooses last, or leave one drafter",
        )


def drafter_options_are_read(case: Case) -> Iterator[Finding]:
    """Options of a drafter that does not run would be ignored."""
    names = drafter_names(case.spec)
    idle = sorted(set(case.spec.drafter_options) - set(names))
    if idle and case.spec.algorithm == "specserve":
        yield error(
            "speculation.drafter_options",
            f"{', '.join(idle)} does not draft here: remove its options, or add it to drafters",
        )


def controllers_are_known(case: Case) -> Iterator[Finding]:
    """Controllers must be registered, each once."""
    field, names = "speculation.controllers", case.spec.controllers
    if case.spec.algorithm != "specserve":
        return
    yield from _unknown(field, "controller", names, case.facts.controllers)
    if len(set(names)) != len(names):
        yield error(field, f"{_repeated(names)} stands twice: name each controller once")


def controller_options_are_read(case: Case) -> Iterator[Finding]:
    """Options of a controller that does not stand in the list would be ignored."""
    idle = sorted(set(case.spec.controller_options) - set(case.spec.controllers))
    if idle and case.spec.algorithm == "specserve":
        yield error(
            "speculation.controller_options",
            f"{', '.join(idle)} does not control here: remove its options, or add it to controllers",
        )


def own_settings_belong_to_specserve(case: Case) -> Iterator[Finding]:
    """SGLang's algorithms read none of these."""
    spec, usual = case.spec, Speculation()
    if spec.algorithm == "specserve":
        return
    options = ("drafter_options", "controller_options", "accept_options")
    for name in ("drafters", "controllers", "sharing", "accept", *options):
        if getattr(spec, name) != getattr(usual, name):
            yield error(
                f"speculation.{name}",
                f"algorithm {spec.algorithm} does not read {name}: remove it, or set algorithm specserve",
            )


def the_accept_rule_is_known(case: Case) -> Iterator[Finding]:
    """A rule must be registered, and one that changes texts is said to do so."""
    spec = case.spec
    if spec.algorithm != "specserve":
        return
    yield from _unknown("speculation.accept", "accept rule", (spec.accept,), case.facts.accept_rules)
    if spec.accept != "strict":
        yield warning(
            "speculation.accept",
            f"{spec.accept} changes the text of greedy requests and may make it longer: measure that with "
            "`specserve bench inflation` for this model, or set strict",
        )
    elif spec.accept_options:
        yield error("speculation.accept_options", "strict has no settings: remove them")


def a_shared_pool_is_one_tenant(case: Case) -> Iterator[Finding]:
    """What drafters learn shows in speed."""
    if case.spec.algorithm == "specserve" and case.spec.sharing == "pool":
        yield warning(
            "speculation.sharing",
            "drafters learn from all requests of this pool, so the speed of one client's answers can reveal what "
            "another one wrote: share only where all clients trust each other, else set request",
        )


def _unknown(field: str, kind: str, names: tuple[str, ...], known: tuple[str, ...] | None) -> Iterator[Finding]:
    if known is None:
        return
    for name in dict.fromkeys(names):
        if name not in known:
            yield error(field, f"unknown {kind} {name!r}: use one of {', '.join(sorted(known))}")


def _repeated(names: tuple[str, ...]) -> str:
    return next(name for name in names if names.count(name) > 1)


RULES: tuple[Rule, ...] = (
    gpus_verify_padded_trees,
    drafters_are_known,
    drafters_make_a_choice,
    drafter_options_are_read,
    controllers_are_known,
    controller_options_are_read,
    own_settings_belong_to_specserve,
    the_accept_rule_is_known,
    a_shared_pool_is_one_tenant,
)
