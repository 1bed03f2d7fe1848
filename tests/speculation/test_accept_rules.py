"""Accept rules on small trees with known logits."""

from __future__ import annotations

import math
import operator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.accept.asd import Asd
from service.speculation.accept_rule import Exempt, accept_registry
from service.speculation.tree import ROOT, DraftTree
from tests.speculation.trees import accepted_path, draft_trees


class Rows:
    """Logits as lists, one a row."""

    def __init__(self, logits: list[list[float]]) -> None:
        self._logits = logits

    def best(self, row: int) -> int:
        return max(range(len(self._logits[row])), key=self._logits[row].__getitem__)

    def regret(self, row: int, token: int) -> float:
        return max(self._logits[row]) - self._logits[row][token]


VOCABULARY = 4


@st.composite
def verified(draw: st.DrawFn) -> tuple[DraftTree, Rows]:
    tree = draw(draft_trees())
    logit = st.integers(0, 40).map(lambda n: n / 10)
    row = st.lists(logit, min_size=VOCABULARY, max_size=VOCABULARY, unique=True)
    return tree, Rows(draw(st.lists(row, min_size=len(tree) + 1, max_size=len(tree) + 1)))


def strict(tree: DraftTree, rows: Rows) -> tuple[list[int], list[int]]:
    targets = [rows.best(row) for row in range(len(tree) + 1)]
    path = accepted_path(tree, targets)
    return path, [*(tree.tokens[node] for node in path), targets[path[-1] + 1 if path else 0]]


@given(case=verified())
def test_strict_is_greedy_verification(case: tuple[DraftTree, Rows]) -> None:
    rule = accept_registry().load("strict").for_request(Exempt())
    assert rule.walk(*case) == strict(*case)
    assert rule.lossless and rule.exceptions == 0


@given(case=verified(), options=st.sampled_from([{"budget": 0.0, "gate": 0.0}, {"per_step": 0}]))
def test_asd_without_a_budget_is_strict(case: tuple[DraftTree, Rows], options: dict[str, float]) -> None:
    assert Asd(**options).walk(*case) == strict(*case)  # type: ignore[arg-type]


@given(case=verified(), gate=st.sampled_from([0.3, 1.0, 9.0]), budget=st.sampled_from([0.5, 2.0]))
def test_the_account_is_kept(case: tuple[DraftTree, Rows], gate: float, budget: float) -> None:
    tree, rows = case
    rule = Asd(gate=gate, budget=budget)
    for _ in range(3):
        before = rule.exceptions
        path, emitted = rule.walk(tree, rows)
        parents = [ROOT, *path][: len(path)]
        wrong = [
            rows.regret(parent + 1, tree.tokens[node])
            for parent, node in zip(parents, path, strict=True)
            if tree.tokens[node] != rows.best(parent + 1)
        ]
        assert rule.exceptions - before == len(wrong) <= rule.per_step
        assert all(regret <= gate for regret in wrong)
        assert rule.spent <= budget + 1e-9
        assert emitted[:-1] == [tree.tokens[node] for node in path]
        assert emitted[-1] == rows.best((path[-1] if path else ROOT) + 1)
        assert len(path) >= len(strict(tree, rows)[0])


CHAIN = DraftTree.chain([1, 2, 3])
#                   behind: root        1           2           3
NEARLY = Rows([[0, 4, 3.9, 0], [0, 0, 3.8, 4], [0, 0, 0, 4], [4, 0, 0, 0]])


def test_a_mismatch_that_goes_on_is_taken() -> None:
    assert strict(CHAIN, NEARLY) == ([0], [1, 3])
    rule = Asd(gate=0.25)
    assert rule.walk(CHAIN, NEARLY) == ([0, 1, 2], [1, 2, 3, 0])
    assert rule.exceptions == 1 and rule.spent == pytest.approx(0.2)


def test_a_mismatch_above_the_gate_is_not_taken() -> None:
    assert Asd(gate=0.1).walk(CHAIN, NEARLY) == ([0], [1, 3])


def test_a_mismatch_at_the_end_of_a_draft_buys_nothing() -> None:
    assert Asd().walk(DraftTree.chain([1, 2]), NEARLY) == ([0], [1, 3])


@pytest.mark.parametrize("token", [2, 3])
def test_ends_are_neither_passed_over_nor_taken_by_exception(token: int) -> None:
    rule = Asd.for_request(Exempt(frozenset({token})))
    assert rule.walk(CHAIN, NEARLY) == ([0], [1, 3])


def test_impossible_options_are_refused() -> None:
    with pytest.raises(ValueError, match="asd"):
        Asd(gate=-1)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8))
def test_block_verification_of_certain_drafts_accepts_what_drawing_does(chances: list[float]) -> None:
    """Block verification (arXiv 2403.10444, algorithm 2) with draft distributions that are point masses.

    `chances` are the target's probabilities of the draft tokens, each behind the ones before.
    """
    joint = [1.0, *accumulate(chances, operator.mul)]
    ends = []
    for i, chance in enumerate(joint):
        left = chance * (1 - chances[i]) if i < len(chances) else chance
        # Behind the whole block nothing is left to compare with: it is accepted with its joint probability.
        ends.append(left / (left + 1 - chance) if i < len(chances) else left)
    block = [ends[i] * math.prod(1 - later for later in ends[i + 1 :]) for i in range(len(ends))]
    drawing = [joint[i] * (1 - chances[i] if i < len(chances) else 1.0) for i in range(len(joint))]
    assert block == pytest.approx(drawing)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6))
def test_rejection_sampling_of_certain_siblings_accepts_what_drawing_does(weights: list[float]) -> None:
    """Siblings tried one after the other against the residual distribution; the last weight is all other tokens'."""
    chances = [weight / sum(weights) for weight in weights]
    rejected, accepted, residual = 1.0, [], list(chances)
    for sibling in range(len(chances) - 1):
        accepted.append(rejected * residual[sibling])
        rejected *= 1 - residual[sibling]
        residual[sibling] = 0.0
        residual = [chance / sum(residual) for chance in residual]
    assert accepted == pytest.approx(chances[:-1])
