"""Controller, drafters and cost model around a step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.errors import UnknownNameError
from service.sglang_plugin.spec_config import SpecConfig, read_config
from service.sglang_plugin.speculator import Speculator, matched
from service.speculation.controller import Plan, Step
from service.speculation.tree import ROOT, DraftTree
from tests.sglang_plugin.test_drafting import request


def speculator(**changes: Any) -> Speculator:
    return Speculator(SpecConfig(**changes), budget=5)


def spec(**fields: Any) -> dict[str, Any]:
    return {"specserve": fields}


def test_a_step_drafts_for_those_who_want_it() -> None:
    reqs = [request("a", [1, 2]), request("b", [1, 2], custom_params=spec(mode="off"))]
    drafts = speculator().prepare(reqs).drafts
    assert [len(draft.tree) > 0 for draft in drafts] == [True, False]


def test_on_overrules_a_controller_that_says_off(monkeypatch: pytest.MonkeyPatch) -> None:
    spec_ = speculator(drafters=("prompt_lookup",))
    monkeypatch.setattr(spec_.controller, "plan", lambda views: [Plan(None, 0) for _ in views])
    reqs = [request(rid, [1, 2], custom_params=spec(mode=rid)) for rid in ("auto", "on")]
    assert [len(draft.tree) > 0 for draft in spec_.prepare(reqs).drafts] == [False, True]


def test_on_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec_ = speculator()
    monkeypatch.setattr(spec_.controller, "trim", lambda views, trees: [DraftTree() for _ in trees])
    reqs = [request(rid, [1, 2], custom_params=spec(mode=rid)) for rid in ("auto", "on")]
    assert [len(draft.tree) > 0 for draft in spec_.prepare(reqs).drafts] == [False, True]


def test_a_request_names_its_drafter() -> None:
    spec_ = speculator(drafters=("prompt_lookup", "bench_widths"))
    reqs = [request("a", [1, 2]), request("b", [1, 2], custom_params=spec(drafter="bench_widths"))]
    plans = [draft.plan.drafter for draft in spec_.prepare(reqs).drafts]
    assert plans == ["prompt_lookup", "bench_widths"]


def test_a_drafter_that_is_not_here_is_named() -> None:
    spec_ = speculator()
    assert spec_.unknown_drafter(request("a")) is None
    reason = spec_.unknown_drafter(request("a", custom_params=spec(drafter="magic")))
    assert reason is not None and "magic" in reason and "prompt_lookup" in reason


def test_the_outcome_reaches_controller_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    spec_ = speculator()
    seen: list[Step] = []
    costs: list[dict[str, Any]] = []
    monkeypatch.setattr(spec_.controller, "observe", seen.append)
    monkeypatch.setattr(spec_, "cost", SimpleNamespace(observe=lambda **given: costs.append(given)))
    reqs = [request("a", [1, 2]), request("b", [1, 2], custom_params=spec(mode="off"))]
    prepared = spec_.prepare(reqs)
    n = len(prepared.drafts[0].tree)
    spec_.finish(reqs, prepared, [([0], [1, 9]), ([], [4])], context=8, verify_s=0.05)
    (step,) = seen
    assert [(o.key, o.proposed, o.accepted) for o in step.outcomes] == [("a", n, 1)]
    assert (step.rows, step.context, step.verify_s) == (2 + n, 8, 0.05)
    assert costs == [{"requests": 2, "rows": 2 + n, "context": 8, "verify_s": 0.05}]


def test_who_left_is_forgotten_by_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    spec_ = speculator()
    gone: list[str] = []
    monkeypatch.setattr(spec_.controller, "forget", gone.append)
    spec_.prepare([request("a", [1, 2]), request("b", [1, 2])])
    spec_.prepare([request("b", [1, 2])])
    assert gone == ["a"]


@pytest.mark.parametrize("changes", [{"drafters": ("magic",)}, {"controllers": ("magic",)}])
def test_unknown_names_stop_the_start(changes: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match="magic"):
        speculator(**changes)


def test_matched_tokens() -> None:
    tree = DraftTree((5, 6, 7), (ROOT, 0, ROOT))
    assert [matched(tree, tokens) for tokens in ([5, 6, 1], [5, 1], [7], [1, 5], [5, 6])] == [2, 1, 1, 0, 2]


def test_settings_come_from_the_environment() -> None:
    assert read_config({}) == SpecConfig()
    text = '{"drafters": ["a", "b"], "controllers": ["x"], "options": {"a": {"n": 1}}, "sharing": "pool"}'
    assert read_config({"SPECSERVE_SPECULATION": text}) == SpecConfig(("a", "b"), ("x",), {"a": {"n": 1}}, "pool")


@pytest.mark.parametrize("text", ["{", "[]", '{"drafter": 1}', '{"sharing": "all"}', '{"options": 3}'])
def test_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SPECSERVE_SPECULATION"):
        read_config({"SPECSERVE_SPECULATION": text})
