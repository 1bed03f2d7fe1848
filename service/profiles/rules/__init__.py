"""Compatibility rules: which profiles cannot work, and which work with a catch.

A rule is a pure function from a case to findings, listed in its module's `RULES`.
"""

from __future__ import annotations

from service.profiles.facts import Facts
from service.profiles.rules import (
    attention,
    eviction,
    extra_args,
    machines,
    pairs,
    parallel,
    parts,
    precision,
    quantization,
    requests,
    resources,
    specserve,
    speculation,
)
from service.profiles.rules.finding import Case, Finding, Level, Rule
from service.profiles.schema import Profile

__all__ = ["RULES", "Case", "Facts", "Finding", "Level", "Rule", "check"]

RULES: tuple[Rule, ...] = (
    *speculation.RULES,
    *specserve.RULES,
    *parts.RULES,
    *pairs.RULES,
    *parallel.RULES,
    *machines.RULES,
    *attention.RULES,
    *precision.RULES,
    *eviction.RULES,
    *quantization.RULES,
    *requests.RULES,
    *resources.RULES,
    *extra_args.RULES,
)


def check(profile: Profile, facts: Facts | None = None) -> tuple[Finding, ...]:
    """All findings, errors first. Reads nothing but its arguments; rules about unknown facts stay silent."""
    case = Case(profile, facts or Facts())
    found = [finding for rule in RULES for finding in rule(case)]
    return tuple(sorted(found, key=lambda finding: finding.level != "error"))
