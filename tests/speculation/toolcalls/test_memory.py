"""What is remembered is bounded and weighed."""

from __future__ import annotations

from service.speculation.toolcalls.memory import CallMemory, Recent, Tally
from service.speculation.toolcalls.place import Frame
from service.speculation.toolcalls.schema import ANY


def test_recent_forgets_what_was_unused_for_longest() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), len(recent)) == (1, None, 2)


def test_a_tally_weighs_the_latest_most_and_keeps_few() -> None:
    tally = Tally(limit=2)
    for text in ("x", "x", "y", "z"):
        tally.add(text)
    counts = tally.counts()
    assert list(counts) == ["y", "z"] and counts["z"] > counts["y"]
    assert tally.total == sum(counts.values())


def test_values_belong_to_tool_and_parameter_and_long_ones_are_not_kept() -> None:
    memory = CallMemory(longest=5)
    city = Frame(ANY, "object", None, seen=("city",), tool="weather")
    memory.learn_value(city, '"Ulm"')
    memory.learn_value(city, '"Donaueschingen"')
    assert set(memory.values(city)) == {'"Ulm"'}
    assert memory.values(city._replace(tool="route")) == {}
    assert memory.values(city._replace(seen=("country",))) == {}


def test_spellings_lean_to_what_was_written_last() -> None:
    memory = CallMemory()
    assert memory.first(1, 5) == {5: 1.0}
    memory.learn_first(1, 5, 6)
    assert memory.first(1, 5)[6] > 0.5
    for _ in range(6):
        memory.learn_first(1, 5, 5)
    assert memory.first(1, 5)[5] > 0.8
    assert memory.first(2, 5) == {5: 1.0}
