"""Who is drafted for, with what, and how much; the requests are SGLang's in shape only."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from service.sglang_plugin.drafting import DraftBook, has_penalties, mode_of, remaining_tokens
from service.speculation.drafter import Drafter
from service.speculation.tree import DraftTree


class Recorder(Drafter):
    """Proposes the last token again, as often as it may; remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def observe(self, tokens: Sequence[int]) -> None:
        self.seen.extend(tokens)

    def propose(self, budget: int) -> DraftTree:
        return DraftTree.chain(self.seen[-1:] * budget)


class Book(DraftBook):
    """A book that keeps the drafters it made."""

    def __init__(self, budget: int = 4) -> None:
        self.made: list[Recorder] = []
        super().__init__(self._make, budget)

    def _make(self) -> Drafter:
        self.made.append(Recorder())
        return self.made[-1]


def params(**changes: Any) -> SimpleNamespace:
    plain = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_new_tokens": 0}
    return SimpleNamespace(**{"custom_params": None, "max_new_tokens": 100, **plain, **changes})


def request(rid: str = "a", output: Sequence[int] = (), **changes: Any) -> Any:
    return SimpleNamespace(
        rid=rid, origin_input_ids_unpadded=[1, 2], output_ids=list(output), sampling_params=params(**changes)
    )


def mode(name: str) -> dict[str, Any]:
    return {"specserve": {"mode": name}}


def test_the_prompt_first_then_each_token_once() -> None:
    book, req = Book(), request(output=[3])
    book.propose([req])
    req.output_ids += [4, 5]
    book.propose([req])
    book.propose([req])
    assert [drafter.seen for drafter in book.made] == [[1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("custom_params", "drafted"),
    [(None, True), ({}, True), (mode("auto"), True), (mode("on"), True), (mode("off"), False), ({"other": 1}, True)],
)
def test_the_mode_decides(custom_params: dict[str, Any] | None, drafted: bool) -> None:
    (tree,) = Book().propose([request(output=[3], custom_params=custom_params)])
    assert (len(tree) > 0) == drafted


def test_a_malformed_extra_is_no_mode() -> None:
    assert mode_of({"specserve": "off"}) == "auto"


@pytest.mark.parametrize(
    "change",
    [{"frequency_penalty": 0.1}, {"presence_penalty": -0.1}, {"repetition_penalty": 1.1}, {"min_new_tokens": 3}],
)
def test_penalties_are_never_drafted_over(change: dict[str, Any]) -> None:
    assert has_penalties(params(**change), 1)
    (tree,) = Book().propose([request(output=[3], **change)])
    assert len(tree) == 0


def test_no_penalties_by_default() -> None:
    assert not has_penalties(params(), 0)


def test_drafting_begins_once_the_least_length_is_reached() -> None:
    assert has_penalties(params(min_new_tokens=3), 2)
    assert not has_penalties(params(min_new_tokens=3), 3)


@pytest.mark.parametrize(("left", "drafts"), [(1, 0), (2, 1), (4, 3), (5, 4), (50, 4)])
def test_drafts_end_where_the_answer_must_end(left: int, drafts: int) -> None:
    req = request(output=[3, 3], max_new_tokens=2 + left)
    assert remaining_tokens(req) == left
    (tree,) = Book(budget=4).propose([req])
    assert len(tree) == drafts


def test_requests_do_not_see_each_other() -> None:
    book = Book()
    book.propose([request("a", [3]), request("b", [7])])
    assert [drafter.seen for drafter in book.made] == [[1, 2, 3], [1, 2, 7]]


def test_who_leaves_the_batch_is_forgotten() -> None:
    book, a, b = Book(), request("a", [3]), request("b", [7])
    book.propose([a, b])
    book.propose([b])
    book.propose([a, b])
    assert [drafter.seen for drafter in book.made] == [[1, 2, 3], [1, 2, 7], [1, 2, 3]]


def test_clear_forgets_all() -> None:
    book, req = Book(), request(output=[3])
    book.propose([req])
    book.clear()
    book.propose([req])
    assert len(book.made) == 2
