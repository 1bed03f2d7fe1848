"""Who is drafted for, with what, and how much; the requests are SGLang's in shape only."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self

import pytest

from service.sglang_plugin.drafting import DraftBook
from service.sglang_plugin.request_extras import mode_of, pass_tools, remaining_tokens, tools_of
from service.speculation.controller import Plan
from service.speculation.drafter import Drafter, DraftRequest, Sampling, VerifiedRows
from service.speculation.tree import DraftTree


class Recorder(Drafter):
    """Proposes the last token again, as often as it may; remembers what it saw."""

    learns_from = 2
    made: list[Recorder]

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.learnt: list[VerifiedRows] = []
        self.made.append(self)

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        drafter = cls(**options)
        drafter.about = request  # type: ignore[attr-defined]
        return drafter

    def observe(self, tokens: Sequence[int]) -> None:
        self.seen.extend(tokens)

    def answer_begins(self) -> None:
        self.prompt = list(self.seen)

    def propose(self, budget: int) -> DraftTree:
        return DraftTree.chain(self.seen[-1:] * budget)

    def learn(self, rows: VerifiedRows) -> None:
        self.learnt.append(rows)


class Other(Recorder):
    """Proposes the first token, once."""

    learns_from = 0

    def propose(self, budget: int) -> DraftTree:
        return DraftTree.chain(self.seen[:1])


class Book:
    """A book, and the drafters that it made."""

    def __init__(self, budget: int = 4, **options: Any) -> None:
        self.made: list[Recorder] = []
        classes = {
            name: type(cls.__name__, (cls,), {"made": self.made}) for name, cls in (("rec", Recorder), ("other", Other))
        }
        self.book = DraftBook(classes, budget, **options)
        self.made.clear()  # those of the check at the start
        self.budget = budget

    def propose(self, reqs: Sequence[Any], shadows: tuple[str, ...] = ()) -> list[DraftTree]:
        self.book.retain(reqs)
        plans = {view.key: Plan("rec", min(self.budget, view.limit), shadows) for view in self.book.views(reqs)}
        self.drafts = self.book.propose(reqs, plans)
        return [draft.tree for draft in self.drafts]


def params(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"custom_params": None, "max_new_tokens": 100, "top_k": 1, **changes})


def request(rid: str = "a", output: Sequence[int] = (), **changes: Any) -> Any:
    return SimpleNamespace(
        rid=rid,
        origin_input_ids=[1, 2],
        origin_input_ids_unpadded=[1, 2],
        output_ids=list(output),
        sampling_params=params(**changes),
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
    assert book.made[0].prompt == [1, 2]


@pytest.mark.parametrize(
    ("custom_params", "drafted"),
    [(None, True), ({}, True), (mode("auto"), True), (mode("on"), True), (mode("off"), False), ({"other": 1}, True)],
)
def test_the_mode_decides(custom_params: dict[str, Any] | None, drafted: bool) -> None:
    (tree,) = Book().propose([request(output=[3], custom_params=custom_params)])
    assert (len(tree) > 0) == drafted


def test_a_malformed_extra_is_no_mode() -> None:
    assert mode_of({"specserve": "off"}) == "auto"


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
    book.book.clear()
    book.propose([req])
    assert len(book.made) == 2


def test_a_request_may_lower_its_budget() -> None:
    (tree,) = Book(budget=4).propose([request(output=[3], custom_params={"specserve": {"budget": 2}})])
    assert len(tree) == 2


def test_shadows_propose_beside_the_plan() -> None:
    book = Book()
    book.propose([request(output=[3])], shadows=("rec", "other"))
    assert {name: tree.tokens for name, tree in book.drafts[0].shadows.items()} == {"other": (1,)}


def test_views_tell_lengths() -> None:
    (view,) = Book(budget=4).book.views([request("a", [3, 4]), request("b", [3], custom_params=mode("off"))])
    assert (view.key, view.limit, view.generated, view.context) == ("a", 4, 2, 4)


def test_learners_are_told_others_not() -> None:
    book = Book()
    book.propose([request(output=[3])], shadows=("other",))
    rows = VerifiedRows([3], [-1], [[5, 6]], [[0.5, 0.4]], [0])
    book.book.learn("a", rows)
    assert [drafter.learnt for drafter in book.made] == [[rows], []]


def test_a_drafter_is_told_about_its_request() -> None:
    book = Book(tenant="pool", model="/model", options={"rec": {}})
    tools = [{"type": "function", "function": {"name": "f"}}]
    book.propose([request(output=[3], custom_params={"specserve": {"tools": tools}})])
    about = book.made[0].about  # type: ignore[attr-defined]
    assert (about.tenant, about.model, about.tools) == ("pool", "/model", tuple(tools))


def test_a_drafter_knows_how_its_request_draws() -> None:
    greedy, drawing = request("a", [3]), request("b", [3], top_k=50, temperature=0.7)
    greedy.specserve_seed = drawing.specserve_seed = 99
    book = Book()
    book.propose([greedy, drawing])
    assert [drafter.about.sampling for drafter in book.made] == [None, Sampling(0.7, 99)]  # type: ignore[attr-defined]


def test_tools_travel_in_the_custom_parameters() -> None:
    tool = SimpleNamespace(model_dump=lambda **_: {"type": "function", "function": {"name": "f"}})
    result: dict[str, Any] = {"custom_params": {"specserve": {"mode": "on"}, "mine": 1}}
    pass_tools(result, SimpleNamespace(tools=[tool], tool_choice="auto"))
    assert mode_of(result["custom_params"]) == "on" and result["custom_params"]["mine"] == 1
    assert tools_of(result["custom_params"]) == ({"type": "function", "function": {"name": "f"}},)
    untouched: dict[str, Any] = {}
    pass_tools(untouched, SimpleNamespace(tools=[tool], tool_choice="none"))
    pass_tools(untouched, SimpleNamespace(tools=None, tool_choice="auto"))
    assert untouched == {} and tools_of(None) == ()
