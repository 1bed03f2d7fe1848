"""The push-down automaton over block marks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.blocks import Block, BlockTracker

P, R, C = Block.PROSE, Block.REASONING, Block.CALL


def kinds(text: str, size: int = 1) -> str:
    """The kind of block at every character, by its first letter, when the text comes in pieces of this size."""
    tracker, found = BlockTracker(), ""
    for i in range(0, len(text), size):
        found += tracker.block[0] * len(text[i : i + size])
        tracker.feed(text[i : i + size])
    return found + tracker.block[0]


CASES = [
    ("Hi <think>a</think> b", "p" * 10 + "r" * 9 + "pp" + "p"),
    ("<tool_call>x</tool_call>", "p" * 11 + "c" * 13 + "p"),
    ('{"a": {"b": [1]}} c', "pp" + "c" * 15 + "pp" + "p"),
    ('[{"a": 1}, {"a": 2}].', "ppp" + "c" * 17 + "p" + "p"),
    ('<think>{"a": 1}</think>', "p" * 7 + "r" * 16 + "p"),
    ('<tool_response>{"a": 1}</tool_response>', "p" * 40),
    (r'{"a": "}\"}"} b', "pp" + "c" * 11 + "pp" + "p"),
    ("if x { y } [z]", "p" * 15),
    ("[TOOL_CALLS][1]<|im_end|>b", "p" * 12 + "c" * 13 + "pp"),
    ('{"a": <|im_end|>b', "pp" + "c" * 14 + "pp"),
    ('{"a\nb', "pp" + "cc" + "pp"),
    ('{"a": ]b', "pp" + "c" * 5 + "p" * 2),
    ("</think> {x} </tool_call>", "p" * 26),
    ("<think><tool_call>x</think>y", "p" * 7 + "r" * 11 + "c" * 9 + "pp"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_by_hand(text: str, expected: str) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(("text", "expected"), CASES)
@settings(deadline=None)
@given(data=st.data())
def test_cuts_make_no_difference_to_the_end(text: str, expected: str, data: st.DataObject) -> None:
    tracker, left = BlockTracker(), text
    while left:
        size = data.draw(st.integers(1, len(left)))
        tracker.feed(left[:size])
        left = left[size:]
    assert tracker.block[0] == expected[-1]


@settings(deadline=None)
@given(st.lists(st.sampled_from(['{"', "}", "]", '"', "\\", "\n", "<think>", "</think>", "<tool_call>", "a", "[{"])))
def test_no_text_breaks_it(pieces: list[str]) -> None:
    tracker = BlockTracker()
    for piece in [*pieces, "<|im_end|>"]:
        tracker.feed(piece)
    assert tracker.block is Block.PROSE


def test_two_blocks_of_a_kind_are_told_apart() -> None:
    tracker = BlockTracker()
    tracker.feed("<tool_call>a")
    before = tracker.changes
    tracker.feed("</tool_call><tool_call>")
    assert tracker.block is Block.CALL and tracker.changes == before + 2
