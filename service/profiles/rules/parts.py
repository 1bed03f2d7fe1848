"""Rules about settings that only the named part itself can judge."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.rules.finding import Case, Finding, Rule, error


def parts_take_their_settings(case: Case) -> Iterator[Finding]:
    """Controllers, accept rules, eviction policies and page selectors are built for trial, where that can be done."""
    if case.facts.trial is not None:
        for field, problem in case.facts.trial(case.profile).items():
            yield error(field, f"the engine would stop at its start: {problem}")


RULES: tuple[Rule, ...] = (parts_take_their_settings,)
