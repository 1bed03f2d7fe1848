"""D-Cut against brute force, and its invariants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.controller import Outcome, Plan, RequestView, Setting, Step, build_controller
from service.speculation.controllers.dcut import DCut
from service.speculation.controllers.fixed import Fixed
from service.speculation.cost import CostModel
from service.speculation.tree import ROOT, DraftTree
from tests.speculation.controllers.machine import CPU, FLAT, KnownCost, Machine
from tests.speculation.controllers.simulation import Habit, World
from tests.speculation.trees import draft_trees


def dcut(cost: CostModel, **options: int) -> DCut:
    setting = Setting(("a",), 11, cost)
    return DCut(setting, Fixed(setting), explore=options.pop("explore", 0))


def views(count: int) -> list[RequestView]:
    return [RequestView(str(i), 11, 5, 100) for i in range(count)]


@st.composite
def scored_trees(draw: st.DrawFn) -> DraftTree:
    tree = draw(draft_trees(max_nodes=4))
    # Away from the corners, where the calibration's bins end.
    scores = draw(st.lists(st.floats(0.06, 0.94), min_size=len(tree), max_size=len(tree)))
    return DraftTree(tree.tokens, tree.parents, tuple(scores))


def subtrees(tree: DraftTree) -> Iterator[tuple[int, ...]]:
    """All sets of nodes that hold their parents."""
    for bits in product((False, True), repeat=len(tree)):
        nodes = tuple(node for node, bit in enumerate(bits) if bit)
        if all(tree.parents[node] in (ROOT, *nodes) for node in nodes):
            yield nodes


def worth(trees: Sequence[DraftTree], machine: Machine) -> float:
    chances = sum(sum(tree.chances() or ()) for tree in trees)
    return (len(trees) + chances) / machine.cost(len(trees) + sum(map(len, trees)))


@pytest.mark.parametrize("table", [CPU, FLAT, {1: 1.0, 3: 1.1, 4: 3.0, 100: 30.0}], ids=["cpu", "gpu", "cliff"])
@given(trees=st.lists(scored_trees(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_nothing_is_worth_more(table: dict[int, float], trees: list[DraftTree]) -> None:
    machine = Machine(table)
    kept = dcut(KnownCost(machine=machine)).trim(views(len(trees)), trees)
    choices = product(*(list(subtrees(tree)) for tree in trees))
    best = max(
        worth([tree.kept(nodes) for tree, nodes in zip(trees, choice, strict=True)], machine) for choice in choices
    )
    assert worth(kept, machine) == pytest.approx(best)


@given(trees=st.lists(scored_trees(), min_size=1, max_size=4), explore=st.integers(0, 1))
@settings(max_examples=60, deadline=None)
def test_what_is_left_is_part_of_what_was_proposed(trees: list[DraftTree], explore: int) -> None:
    kept = dcut(KnownCost(), explore=explore).trim(views(len(trees)), trees)
    assert len(kept) == len(trees), "every request keeps its root row"
    for part, whole in zip(kept, trees, strict=True):
        assert paths(part) <= paths(whole)


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent != ROOT else ()), token))
    return set(found)


def test_nothing_is_cut_without_confidences_or_costs() -> None:
    silent, scored = DraftTree.chain([1, 2, 3]), DraftTree.chain([1, 2, 3], 0.01)
    assert dcut(KnownCost()).trim(views(2), [silent, scored]) == [silent, DraftTree((), (), (), None)]
    assert dcut(CostModel()).trim(views(1), [scored]) == [scored]


def test_a_crowd_gets_less_each() -> None:
    chain = DraftTree.chain(range(11), 0.7)
    alone, crowd = (dcut(KnownCost()).trim(views(n), [chain] * n) for n in (1, 16))
    assert len(alone[0]) > 2 * len(crowd[0]) > 0


def test_rows_flow_to_the_sure_requests() -> None:
    sure, unsure = DraftTree.chain(range(11), 0.93), DraftTree.chain(range(11), 0.3)
    kept = dcut(KnownCost()).trim(views(8), [sure, *[unsure] * 7])
    assert len(kept[0]) > 3 > len(kept[1])


def test_boasting_sources_are_found_out() -> None:
    controller, boast = dcut(KnownCost()), DraftTree.chain(range(11), 0.9, "boast")
    assert len(controller.trim(views(8), [boast] * 8)[0]) > 2
    plan = Plan("a", 11)
    for _ in range(200):
        outcome = Outcome("0", plan, 11, 0, tree=boast, path=())
        controller.observe(Step((outcome,), 12, 100, 0.0, 0.04))
    assert not len(controller.trim(views(8), [boast] * 8)[0])
    honest = DraftTree.chain(range(11), 0.9, "honest")
    assert len(controller.trim(views(8), [honest] * 8)[0]) > 2


def test_what_is_always_cut_is_tried_again() -> None:
    setting = Setting(("shy",), 11, KnownCost())
    world = World(DCut(setting, Fixed(setting)), setting.cost, honest=False)
    modest = DraftTree.chain(range(11), 0.05, "shy")
    world.tree = lambda text, plan: modest  # type: ignore[method-assign]
    for _ in range(400):
        world.step({str(i): {"shy": Habit(1, 0.9)} for i in range(8)}, 11)
    world.nodes = 0
    world.step({str(i): {"shy": Habit(1, 0.9)} for i in range(8)}, 11)
    assert world.nodes >= 8


def test_it_needs_something_to_cut() -> None:
    with pytest.raises(ValueError, match="dcut"):
        build_controller(("dcut",), Setting(("a",), 11, CostModel()))
