"""Rules about requests that lose tokens, and about the proof that their answers stay good."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.kv_methods import kv_policy
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import KvCache

_MIXED = "--enable-mixed-chunk"
_OWN = ("budget", "sinks", "window", "eviction_interval", "eviction_options")


def the_policy_is_known(case: Case) -> Iterator[Finding]:
    """A policy must be registered, and its settings read by somebody."""
    kv, usual = case.kv, KvCache()
    known = case.facts.kv_eviction
    if known is not None and kv.eviction not in known:
        yield error("kv.eviction", f"unknown eviction policy {kv.eviction!r}; known: {', '.join(sorted(known))}")
    if kv.eviction == "none":
        for name in _OWN:
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
            "kv.eviction",
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
        yield from _missed(policy, report.missed, forced=kv.quality_forced == kv.eviction)


def _missed(policy: str, missed: tuple[str, ...], *, forced: bool) -> Iterator[Finding]:
    what = f"{policy} missed the quality thresholds of {', '.join(missed) or 'its report'}"
    if forced:
        yield warning("kv.quality_forced", f"{what}, and is served all the same")
    else:
        name = policy.partition(":")[0]
        yield error("kv.eviction", f"{what}: raise the budget, choose another policy, or set kv.quality_forced {name}")


RULES: tuple[Rule, ...] = (the_policy_is_known, eviction_needs_our_attention, eviction_is_proven)
