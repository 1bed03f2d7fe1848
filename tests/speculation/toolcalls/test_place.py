"""The automaton accepts what JSON accepts and knows where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.toolcalls.place import At, Grammar, Place
from service.speculation.toolcalls.schema import Toolbox
from tests.speculation.toolcalls.tools import TOOLS

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def grammar() -> Grammar:
    return Grammar(Toolbox(TOOLS))


@given(value=st.dictionaries(st.text(), values), indent=st.sampled_from([None, 0, 2]), ascii=st.booleans())
def test_every_json_object_is_walked_to_its_end(value: Any, indent: int | None, ascii: bool) -> None:
    place = grammar().walk(Place(At.VALUE, None), json.dumps(value, indent=indent, ensure_ascii=ascii))
    assert place is not None and place.at is At.DONE


@given(value=st.dictionaries(st.text(), values, min_size=1), data=st.data())
def test_pieces_make_no_difference(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text)))
    start = Place(At.VALUE, None)
    assert grammar().walk(grammar().walk(start, text[:cut]), text[cut:]) == grammar().walk(start, text)


@pytest.mark.parametrize("text", ["}", '{"a" 1', '{"a": 1]', "[1}", "{,", '{"a":1,}', '"x\n"', '{"a": ?', "{} x"])
def test_what_is_no_json_is_refused(text: str) -> None:
    assert grammar().walk(Place(At.VALUE, None), text) is None


def test_the_name_of_the_tool_decides_the_schema_of_its_arguments() -> None:
    rules = grammar()
    place = rules.walk(rules.root(many=True), '[{"name": "plan_route", "parameters": {"stops": [{"hours": ')
    assert place is not None and place.frame is not None
    assert place.schema.only == "integer" and place.frame.tool == "plan_route" and place.frame.path == ("stops", "")
