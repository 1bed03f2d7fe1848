"""Rules about requests that lose or skip tokens, and about the proof that their answers stay good."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.kv_methods import EVICTION_FIELDS, SELECTOR_FIELDS, kv_policy
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import KvCache

_MIXED = "--enable-mixed-chunk"


def the_policy_is_known(case: Case) -> Iterator[Finding]:
    """A policy must be registered, and its settings read by somebody."""
    kv, usual = case.kv, KvCache()
    known = case.facts.kv_eviction
    if known is not None and kv.eviction not in known:
        yield error("kv.eviction", f"unknown eviction policy {kv.eviction!r}; known: {', '.join(sorted(known))}")
    if kv.eviction == "none":
        for name in EVICTION_FIELDS:
            if getattr(kv, name) != getattr(usual, name):
                yield error(f"kv.{name}", f"nothing is evicted, so nobody reads {name}: remove it, or set kv.eviction")
    elif kv.budget < kv.sinks + kv.window:
        yield error("kv.budget", f"sinks and window take {kv.sinks + kv.window} tokens: set at least that")


def eviction_needs_our_attention(case: Case) -> Iterator[Finding]:
    """Only our CPU attention reads requests with holes. Other rules give it to CPU engines, and pages of one token."""
    if case.kv.eviction == "none":
        return
    if not case.on_cpu:
        yield error("kv.eviction", "tokens are evicted on CPU engines only for now: set none")
    if case.spec.algorithm not in ("none", "specserve"):
        yield error(
            "kv.eviction",
            f"the drafts of {case.spec.algorithm} would read evicted tokens: set algorithm specserve or none",
        )
    if _MIXED in case.flags:
        yield error("runtime.extra_args", f"a request with holes cannot share a prefill pass: remove {_MIXED}")


def the_selector_is_known(case: Case) -> Iterator[Finding]:
    """A selector must be registered, and its settings read by somebody."""
    kv, usual = case.kv, KvCache()
    known = case.facts.page_selectors
    if known is not None and kv.selector not in known:
        yield error("kv.selector", f"unknown page selector {kv.selector!r}; known: {', '.join(sorted(known))}")
    if kv.selector == "none":
        for name in SELECTOR_FIELDS:
            if getattr(kv, name) != getattr(usual, name):
                yield error(f"kv.{name}", f"everything is read, so nobody reads {name}: remove it, or set kv.selector")
    elif kv.selector_tokens < 3 * kv.selector_page:
        yield error("kv.selector_tokens", f"three pages are read in any case: set at least {3 * kv.selector_page}")


def selection_needs_our_attention(case: Case) -> Iterator[Finding]:
    """Only our CPU attention reads pages by layer and head, one token a step, of requests without holes."""
    if case.kv.selector == "none":
        return
    if not case.on_cpu:
        yield error("kv.selector", "pages are selected on CPU engines only for now: set none")
    if case.spec.algorithm != "none":
        yield error("kv.selector", "a verify step reads everything: set speculation.algorithm none, or selector none")
    if case.kv.eviction != "none":
        yield error("kv.selector", "pages with holes have no summaries: set kv.eviction none, or selector none")
    if case.kv.dtype not in ("auto", case.target.dtype):
        yield error("kv.dtype", "a selector reads rows of the model's own dtype: set auto, or kv.selector none")


def eviction_is_proven(case: Case) -> Iterator[Finding]:
    """Texts change, and only a measurement on this model says how much."""
    policy, kv, report = kv_policy(case.kv), case.kv, case.facts.quality
    if policy is None:
        for name in ("quality_report", "quality_forced"):
            if getattr(kv, name) is not None:
                yield error(f"kv.{name}", f"the cache holds everything, so nothing needs a proof: remove {name}")
        return
    if kv.quality_report is None:
        yield warning(
            _chosen(kv),
            f"{policy} changes texts and nothing says how much: run `specserve bench quality` and name its "
            "summary.json as kv.quality_report",
        )
        return
    if report is None:
        return
    if report.problem is not None:
        yield error("kv.quality_report", f"{report.problem}: run `specserve bench quality`, or remove the setting")
    elif (report.policy, report.model) != (policy, case.target.model):
        yield error(
            "kv.quality_report",
            f"it judged {report.policy} on {report.model}, not {policy} on {case.target.model}: "
            "run `specserve bench quality` for this pool",
        )
    elif not report.passed:
        yield from _missed(policy, report.missed, _chosen(kv), forced=kv.quality_forced == policy.partition(":")[0])


def _chosen(kv: KvCache) -> str:
    """The field that names what compresses the cache."""
    if kv.selector != "none":
        return "kv.selector"
    return "kv.eviction" if kv.quantization == "none" else "kv.quantization"


def _missed(policy: str, missed: tuple[str, ...], field: str, *, forced: bool) -> Iterator[Finding]:
    what = f"{policy} missed the quality thresholds of {', '.join(missed) or 'its report'}"
    if forced:
        yield warning("kv.quality_forced", f"{what}, and is served all the same")
    else:
        name = policy.partition(":")[0]
        yield error(field, f"{what}: keep or read more, choose another policy, or set kv.quality_forced {name}")


RULES: tuple[Rule, ...] = (
    the_policy_is_known,
    eviction_needs_our_attention,
    the_selector_is_known,
    selection_needs_our_attention,
    eviction_is_proven,
)
