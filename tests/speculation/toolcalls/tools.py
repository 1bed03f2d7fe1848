"""Tools that the tests call."""

from __future__ import annotations

from typing import Any


def tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    """An OpenAI tool object."""
    parameters = {"type": "object", "properties": properties, "required": required or list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
WEATHER = tool("get_weather", city=TEXT, unit={"type": "string", "enum": ["celsius", "fahrenheit"]})
ROUTE = tool(
    "plan_route",
    ["stops"],
    stops={"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "hours": NUMBER}}},
    toll=FLAG,
)
TOOLS = (WEATHER, ROUTE)
