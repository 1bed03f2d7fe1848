"""A small prompt set of each kind, so that no test needs the public ones."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from loadtests.prompts import CATEGORIES


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both files."""
    folder = tmp_path_factory.mktemp("data")
    prompts = [
        {"id": f"{category}-{number}", "category": category, "turns": [f"{category} {number}?", "And then?"]}
        for those in CATEGORIES.values()
        for category in those
        for number in range(3)
    ]
    function = {"name": "area", "parameters": {"type": "object", "properties": {"side": {"type": "integer"}}}}
    calls = [
        {
            "id": f"call-{number}",
            "messages": [{"role": "user", "content": f"The area of a square of side {number}?"}],
            "tools": [{"type": "function", "function": function}],
        }
        for number in range(3)
    ]
    for name, lines in (("prompts", prompts), ("tool_calls", calls)):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return folder
