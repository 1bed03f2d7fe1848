"""Settings that only the named part can judge."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.cli_trial import trial
from service.profiles.facts import Facts
from service.profiles.rules import check
from service.profiles.schema import Profile

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "order": ({"speculation": {"controllers": ["roofline", "dcut"]}}, "speculation.controllers", "put one behind it"),
    "two that choose": (
        {"speculation": {"controllers": ["ucb", "fixed"]}},
        "speculation.controllers",
        "only stand last",
    ),
    "controller value": (
        {"speculation": {"controller_options": {"roofline": {"on": 0.5}}}},
        "speculation.controller_options",
        "off <= 1 <= on",
    ),
    "controller name": (
        {"speculation": {"controller_options": {"fixed": {"speed": 2}}}},
        "speculation.controller_options",
        "controller fixed: .*'speed'",
    ),
    "accept": (
        {"speculation": {"accept": "asd", "accept_options": {"speed": 2}}},
        "speculation.accept_options",
        "speed",
    ),
    "eviction": ({"kv": {"eviction": "snapkv", "eviction_options": {"speed": 2}}}, "kv.eviction_options", "'speed'"),
    "selector": ({"kv": {"selector": "locks", "selector_options": {"speed": 2}}}, "kv.selector_options", "'speed'"),
}
RIGHT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "controllers": {
        "speculation": {
            "controllers": ["roofline", "dcut", "ucb"],
            "controller_options": {"roofline": {"on": 1.1}, "ucb": {"shares": [0.5, 1.0], "off": False}},
        }
    },
    "selector": {"kv": {"selector": "locks", "selector_options": {"rank": 4}}},
    "settings of none, of which others tell": {"kv": {"eviction_options": {"a": 1}, "selector_options": {"a": 1}}},
    "unknown, of which others tell": {"kv": {"eviction": "nobody", "eviction_options": {"a": 1}}},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_stop_the_engine_is_found_before(name: str) -> None:
    values, field, words = WRONG[name]
    found = check(Profile.model_validate(values), Facts(trial=trial))
    (fault,) = [finding for finding in found if finding.level == "error" and finding.field == field]
    assert re.search(words, fault.message)


@pytest.mark.parametrize("name", RIGHT)
def test_what_works_is_left_alone(name: str) -> None:
    assert trial(Profile.model_validate(RIGHT[name])) == {}


def test_settings_of_a_controller_that_does_not_run_are_refused() -> None:
    profile = Profile.model_validate({"speculation": {"controller_options": {"ucb": {"scale": 1}}}})
    (fault,) = [finding for finding in check(profile) if finding.level == "error"]
    assert fault.field == "speculation.controller_options"
    assert "add it to controllers" in fault.message
