"""What every registered drafter must do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import UnknownNameError
from service.speculation.drafter import Drafter, DraftRequest, drafter_registry
from service.speculation.tree import DraftTree
from tests.speculation.drafters import CASES, TINY, DrafterCase
from tests.speculation.tiny_models import tiny_model

texts = st.lists(st.integers(0, 5), max_size=60)
budgets = st.integers(1, 16)
every_drafter = pytest.mark.parametrize("case", CASES, ids=str)
every_light_drafter = pytest.mark.parametrize("case", [case for case in CASES if not case.model], ids=str)
WITH_MODEL = [case for case in CASES if case.model]


def build(case: DrafterCase) -> Drafter:
    options = {name: tiny_model() if value == TINY else value for name, value in case.options.items()}
    request = DraftRequest(model=tiny_model()) if case.model else DraftRequest()
    return drafter_registry().load(case.name).for_request(request, **options)


def observed(case: DrafterCase, *pieces: list[int]) -> Drafter:
    drafter = build(case)
    for piece in pieces:
        drafter.observe(piece)
    return drafter


def test_the_table_covers_the_registry() -> None:
    assert {case.name for case in CASES} == set(drafter_registry())


@every_light_drafter
@given(text=texts, budget=budgets)
def test_a_proposal_is_a_tree_within_the_budget(case: DrafterCase, text: list[int], budget: int) -> None:
    tree = observed(case, text).propose(budget)
    assert isinstance(tree, DraftTree)
    assert len(tree) <= budget


@every_light_drafter
@given(text=texts, budget=budgets)
def test_only_tokens_of_the_text_are_proposed(case: DrafterCase, text: list[int], budget: int) -> None:
    assert set(observed(case, text).propose(budget).tokens) <= set(text)


@every_light_drafter
@given(text=texts, cut=st.integers(0, 60), budget=budgets)
def test_pieces_make_no_difference(case: DrafterCase, text: list[int], cut: int, budget: int) -> None:
    whole, pieces = observed(case, text), observed(case, text[:cut], [], text[cut:])
    assert whole.propose(budget) == pieces.propose(budget)


@every_light_drafter
@given(text=texts, other=texts, budget=budgets)
def test_nothing_leaks_between_instances(case: DrafterCase, text: list[int], other: list[int], budget: int) -> None:
    alone = observed(case, text).propose(budget)
    neighbour = observed(case, other)
    neighbour.propose(budget)
    assert observed(case, text).propose(budget) == alone


@pytest.mark.parametrize("case", WITH_MODEL, ids=str)
@settings(max_examples=6, deadline=None)
@given(text=texts, other=texts, cut=st.integers(0, 60), budget=budgets)
def test_models_keep_the_contract(case: DrafterCase, text: list[int], other: list[int], cut: int, budget: int) -> None:
    """The same properties with few examples, but that a model may propose tokens that the text has not."""
    test_a_proposal_is_a_tree_within_the_budget.hypothesis.inner_test(case, text, budget)
    test_pieces_make_no_difference.hypothesis.inner_test(case, text, cut, budget)
    test_nothing_leaks_between_instances.hypothesis.inner_test(case, text, other, budget)


@every_drafter
def test_the_given_tokens_are_not_kept_by_reference(case: DrafterCase) -> None:
    text = [1, 2, 3, 1, 2]
    drafter = observed(case, text)
    text.clear()
    assert drafter.propose(4) == observed(case, [1, 2, 3, 1, 2]).propose(4)


@every_drafter
def test_no_text_no_proposal(case: DrafterCase) -> None:
    assert len(build(case).propose(4)) == 0


@every_drafter
def test_a_repeating_text_is_drafted_for(case: DrafterCase) -> None:
    drafter = observed(case, [1, 2, 3, 4] * 4)
    assert any(len(drafter.propose(8)) > 0 for _ in range(5)) == case.proposes


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="known: .*none.*prompt_lookup"):
        drafter_registry().load("absent")


def test_listing_names_imports_no_drafter_and_no_torch() -> None:
    code = (
        "import sys; from service.speculation.drafter import drafter_registry; list(drafter_registry()); "
        "print([m for m in sys.modules if m == 'torch' or m.startswith('service.speculation.drafters.')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
