"""toolspec drafts what schemas force, in every format, and leaves the rest to its fallback."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.drafter import DraftRequest, drafter_registry
from service.speculation.drafters.toolspec import ToolSpec
from service.speculation.memory import DraftMemory
from tests.speculation.toolcalls.pieces import Pieces, Replay, replay
from tests.speculation.toolcalls.tools import FLAG, TEXT, TOOLS, tool

CALL = {"name": "get_weather", "arguments": {"city": "Bern", "unit": "celsius"}}
ROUTE = {"name": "plan_route", "arguments": {"stops": [{"name": "Ulm", "hours": 2}, {"name": "Linz", "hours": 3}]}}
FORMATS = {
    "hermes": "<tool_call>\n{}\n</tool_call>",
    "forced hermes": "<tool_call>{}</tool_call>",
    "llama": "<|python_tag|>{}",
    "bare": "{}",
    "mistral": "[TOOL_CALLS] [{}]",
}


def array(*calls: dict[str, Any], indent: int | None = None) -> str:
    return json.dumps([{"name": call["name"], "parameters": call["arguments"]} for call in calls], indent=indent)


def run(
    text: str, memory: DraftMemory | None = None, tenant: str | None = None, tools: Any = TOOLS, prompt: str = "Go.\n"
) -> Replay:
    pieces = Pieces()
    request = DraftRequest(tenant=tenant, tools=tools, tokenizer=pieces, memory=memory or DraftMemory())
    return replay(ToolSpec.for_request(request), pieces.encode(prompt), pieces.encode(text))


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_takes_few_steps_in_every_format(form: str) -> None:
    found = run(FORMATS[form].replace("{}", json.dumps(CALL)))
    assert found.drafted >= 8
    assert found.steps <= 9


def test_an_answer_that_began_before_the_first_proposal_is_no_prompt() -> None:
    """An engine's first token comes from the prefill, before anything is proposed."""
    pieces = Pieces()
    drafter = ToolSpec.for_request(DraftRequest(tools=TOOLS, tokenizer=pieces))
    drafter.observe(pieces.encode("Go.\n"))
    drafter.answer_begins()
    drafter.observe(pieces.encode('<tool_call>\n{"name": "get_w'))
    tree = drafter.propose(8)
    assert set(tree.sources or ()) <= {"scaffold", "choice"}
    assert pieces.decode(tree.tokens).startswith("eather")


def test_json_arrays_as_sglang_forces_them() -> None:
    assert run(array(CALL, ROUTE)).steps <= 17
    assert run(array(CALL)).drafted >= 8


def test_indentation_is_learnt_from_the_text() -> None:
    text = array(ROUTE, ROUTE, indent=4)
    assert run(text).steps <= 24 < len(Pieces().encode(text)) / 4


def test_past_calls_are_retrieved_for_the_same_tenant_only() -> None:
    memory = DraftMemory()
    text = FORMATS["hermes"].replace("{}", json.dumps(CALL))
    first, again = run(text, memory, "a"), run(text, memory, "a")
    assert again.steps < first.steps and again.accepted["retrieval"] > 0
    assert run(text, memory, "b").steps == first.steps
    assert run(text, memory, None).steps == first.steps


def test_earlier_calls_of_the_conversation_are_retrieved() -> None:
    text = FORMATS["hermes"].replace("{}", json.dumps(CALL))
    assert run(text, prompt=f"{text}\nAgain.\n").accepted["retrieval"] > 0
    assert run(text).accepted["retrieval"] == 0


def test_a_prompt_that_shows_the_format_draws_no_conclusion_from_placeholders() -> None:
    run(array(CALL), prompt='<tool_call>\n{"name": <function-name>}\n</tool_call>\n')


def test_of_many_tools_the_used_ones_come_first() -> None:
    memory = DraftMemory()
    tools = tuple(tool(f"{letter}{other}", flag=FLAG) for letter in "abcdef" for other in "uvwxyz")
    call = array({"name": "fz", "arguments": {"flag": True}})
    first, again = run(call, memory, "a", tools), run(call, memory, "a", tools)
    assert again.steps < first.steps


def test_optional_parameters_and_the_end_are_both_drafted() -> None:
    tools = (tool("f", ["a"], a=FLAG, b=FLAG),)
    short = run(array({"name": "f", "arguments": {"a": True}}), tools=tools)
    long = run(array({"name": "f", "arguments": {"a": True, "b": False}}), tools=tools)
    assert short.steps <= 4 and long.steps <= 5


def test_values_may_break_the_schema() -> None:
    run('<tool_call>{"name": "nothing", "arguments": [1, {"city": {"type": "string"}}]}</tool_call> and so on')
    run('<tool_call>{"name": ?!} <tool_call>{"name": "get_weather", "arguments": {}}')


@pytest.mark.parametrize("request_", [DraftRequest(tokenizer=Pieces()), DraftRequest(tools=TOOLS)])
def test_without_tools_or_tokenizer_the_fallback_works_alone(request_: DraftRequest) -> None:
    drafter, alone = ToolSpec.for_request(request_), drafter_registry().load("suffix").for_request(request_)
    for one in (drafter, alone):
        one.observe([1, 2, 3, 1, 2])
    assert drafter.propose(4) == alone.propose(4)


def test_outside_calls_the_fallback_drafts() -> None:
    found = run("one two three one two three one two three")
    assert found.accepted["suffix"] > 0


def test_an_open_call_in_the_prompt_is_gone_on_with() -> None:
    found = run('name": "get_weather", "arguments": {"city": "', prompt='Go.\n<tool_call>\n{"')
    assert found.steps <= 4


@settings(deadline=None, max_examples=60)
@given(text=st.text(alphabet='{}[]":,\\ \nabname1<tool_call>', max_size=60), budget=st.integers(1, 12))
def test_no_text_confuses_it(text: str, budget: int) -> None:
    pieces = Pieces()
    request = DraftRequest(tools=(tool("name", a=TEXT, b=FLAG),), tokenizer=pieces)
    for start in ("", '[{"name": "name", "parameters": {', "<tool_call>"):
        replay(ToolSpec.for_request(request), pieces.encode("x"), pieces.encode(start + text), budget)


def test_confidences_are_chances() -> None:
    pieces = Pieces()
    drafter = ToolSpec.for_request(DraftRequest(tools=TOOLS, tokenizer=pieces))
    drafter.observe(pieces.encode("Go.\n"))
    drafter.propose(8)
    drafter.observe(pieces.encode('[{"name": "'))
    tree = drafter.propose(20)
    assert tree.confidences is not None and all(0 < chance <= 1 for chance in tree.confidences)
    roots = [c for c, parent in zip(tree.confidences, tree.parents, strict=True) if parent < 0]
    assert len(roots) == 2 and sum(roots) <= 1.0


def test_a_fallback_that_learns_is_refused() -> None:
    with pytest.raises(ValueError, match="learns from"):
        ToolSpec.for_request(DraftRequest(), fallback="adjacency")


def test_the_models_own_spelling_of_forced_words_is_learnt() -> None:
    class Letters(Pieces):
        """Encodes like Pieces, but the model writes `parameters` in two tokens."""

        def written(self, text: str) -> list[int]:
            first, rest = text.split("parameters")
            halves = [self.known.setdefault(piece, len(self.known)) for piece in ("param", "eters")]
            return [*self.encode(first), *halves, *self.encode(rest)]

    memory, pieces, steps = DraftMemory(), Letters(), []
    output = pieces.written(array(CALL))
    for _ in range(4):
        request = DraftRequest(tenant="a", tools=TOOLS, tokenizer=pieces, memory=memory)
        steps.append(replay(ToolSpec.for_request(request), pieces.encode("Go.\n"), output).steps)
    assert steps[-1] <= 2 < steps[0]
