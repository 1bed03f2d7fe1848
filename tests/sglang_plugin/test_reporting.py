"""Ids of choices and aborts in SGLang's HTTP server."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from service.sglang_plugin.reporting import abort_children, numbered_child_rid
from service.sglang_plugin.seeds import choice_rid


def never(request: Any) -> str:
    raise AssertionError("SGLang's own ids were taken")


def test_choices_are_numbered_for_each_prompt() -> None:
    shared: dict[str, Any] = {"temperature": 1.0}
    prompts = [SimpleNamespace(rid=f"a_{i}", sampling_params=shared) for i in range(2)]
    rids = [numbered_child_rid(never, copy.copy(prompt)) for _ in range(3) for prompt in prompts]
    assert rids == [choice_rid(rid, number) for number in range(3) for rid in ("a_0", "a_1")]
    assert [prompt.rid for prompt in prompts] == ["a_0", "a_1"]


def test_batches_of_ids_are_left_to_sglang() -> None:
    request = SimpleNamespace(rid=["a", "b"], sampling_params=[{}, {}])
    assert numbered_child_rid(lambda _: "sglang", request) == "sglang"


def test_an_abort_reaches_prompts_and_choices_and_nobody_else() -> None:
    ours = ["a", choice_rid("a", 1), choice_rid("a", 20), "a_0", choice_rid("a_0", 1), choice_rid("a_12", 3)]
    others = ["ab", "a-1", "a-choice-x", choice_rid("a-1", 1), choice_rid("b", 1), "b", "a_"]
    known = [*ours, *others]
    manager = SimpleNamespace(rid_to_state=dict.fromkeys(known))
    aborted: list[str] = []
    abort_children(lambda _, rid, abort_all: aborted.append(rid), manager, rid="a")
    assert aborted == ours


def test_ids_are_taken_literally() -> None:
    manager = SimpleNamespace(rid_to_state=dict.fromkeys([choice_rid("a.b", 1), choice_rid("axb", 1)]))
    aborted: list[str] = []
    abort_children(lambda _, rid, abort_all: aborted.append(rid), manager, rid="a.b")
    assert aborted == ["a.b", choice_rid("a.b", 1)]
