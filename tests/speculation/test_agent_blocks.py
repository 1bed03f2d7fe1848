"""Drafts from blocks of the same kind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.speculation.drafter import DraftRequest
from service.speculation.drafters.agent_blocks import AgentBlocks, SelfRepetition
from service.speculation.drafters.suffix import Suffix


class Letters:
    """A token is a character."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token) for token in tokens)


def drafter(text: str, min_chance: float = 0.05, elsewhere: int = 0) -> AgentBlocks:
    request = DraftRequest(tokenizer=Letters())
    made = AgentBlocks.for_request(request, min_chance=min_chance, elsewhere=elsewhere)
    made.observe(Letters().encode(text))
    return made


def first(made: AgentBlocks) -> str:
    """The likeliest next characters: the first child of each node."""
    tree = made.propose(16)
    text, parent = "", -1
    for node in range(len(tree)):
        if tree.parents[node] == parent:
            text, parent = text + chr(tree.tokens[node]), node
    return text


def test_another_kind_of_block_is_not_copied() -> None:
    text = "<think>the sum is 12</think>so the sum is 34. <think>the s"
    assert first(drafter(text)).startswith("um is 12")
    assert first(drafter("<think>the sum is 12</think>we know the s")) == ""


def test_a_long_match_elsewhere_is_copied_when_asked_for() -> None:
    text = "<think>the sum is 12</think>we know the s"
    assert first(drafter(text, elsewhere=5)).startswith("um i")
    assert first(drafter(text, elsewhere=6)) == ""
    call = '<tool_call>{"city": "Ulan Bator"}</tool_call> of Ulan Udo <tool_call>{"city": "Ula'
    assert first(drafter(call, elsewhere=3)).startswith("n ")


def test_a_block_is_drafted_from_its_first_token() -> None:
    call = '<tool_call>{"name": "find", "x": 1}</tool_call>'
    made = drafter(f"a{call} b{call} c<tool_call>")
    assert made.block == "call"
    assert first(made).startswith('{"name": "fi')
    assert set(made.propose(4).sources or ()) == {"agent_call"}


def test_without_a_tokenizer_it_is_one_block() -> None:
    text = Letters().encode("<think>ab cd ef</think> ab cd")
    alone, suffix = AgentBlocks.for_request(DraftRequest()), Suffix()
    alone.observe(text)
    suffix.observe(text)
    assert alone.block == "prose"
    assert set(alone.propose(4).tokens) == set(suffix.propose(4).tokens)


def test_a_request_that_repeats_itself_gets_longer_drafts() -> None:
    passage = "The quick brown fox jumps over the lazy dog. "
    fresh = "Sphinx of black quartz, judge my vow; pack it in five dozen liquor jugs! "
    often, rarely = drafter(passage * 6 + "The qu", 0.3), drafter(fresh + passage + fresh.swapcase() + "The qu", 0.3)
    assert len(often.propose(40)) > len(rarely.propose(40)) > 0


def test_repetition_is_measured_against_its_promise() -> None:
    usual, more, less = SelfRepetition(), SelfRepetition(), SelfRepetition()
    for i in range(400):
        usual.observe(0.5, i % 2 == 0)
        more.observe(0.5, True)
        less.observe(0.5, False)
    assert usual.factor == pytest.approx(1.0, abs=0.05)
    assert more.factor > 1.5 and less.factor < 0.3


@pytest.mark.parametrize(("options", "fault"), [({"min_chance": 1.5}, "min_chance"), ({"elsewhere": -1}, "elsewhere")])
def test_impossible_options_are_refused(options: dict[str, float], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        AgentBlocks.for_request(DraftRequest(), **options)
