"""Schemas are read as far as they make sense."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.speculation.toolcalls.schema import ANY, ANY_OBJECT, Toolbox, parse
from tests.speculation.toolcalls.tools import TOOLS

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "enum", "required", "anyOf", "allOf", "$ref", "const", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(schema=documents)
def test_any_document_is_read(schema: object) -> None:
    parse(schema)


def test_order_required_and_choices() -> None:
    schema = Toolbox(TOOLS).arguments("get_weather")
    assert schema.keys == ("city", "unit") and schema.required == {"city", "unit"}
    assert schema.member("unit").choices == ('"celsius"', '"fahrenheit"')


def test_references_and_alternatives_are_followed() -> None:
    schema = parse(
        {
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
            "properties": {"a": {"$ref": "#/$defs/point"}, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        }
    )
    assert schema.only == "object"
    assert schema.member("a").required == {"x"} and schema.member("a").member("x").only == "number"
    assert schema.member("b").only == "string"


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {key: {"$ref": "#"} for key in "abcdef"}}
    assert parse(node).member("a").member("b").only == "object"


def test_what_is_no_function_is_left_out() -> None:
    toolbox = Toolbox(({"type": "web_search"}, {"type": "function", "function": {"name": 3}}, *TOOLS))
    assert len(toolbox) == 2 and toolbox.arguments("absent") is ANY_OBJECT and ["x"] not in toolbox
    assert parse("nonsense") is ANY
