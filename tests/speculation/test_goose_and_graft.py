"""Adjacency, goose and graft: what they learn, copy and prune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from service.errors import UnknownNameError
from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.drafter import Drafter, DraftRequest, VerifiedRows
from service.speculation.drafters.adjacency import Adjacency
from service.speculation.drafters.goose import Goose
from service.speculation.drafters.graft import Graft
from service.speculation.memory import DraftMemory
from service.speculation.table_guesses import TableGuesses
from service.speculation.tree import ROOT, DraftTree

TENANT = DraftRequest(tenant="a", memory=DraftMemory())


def answers(token: int, best: Sequence[int], scores: Sequence[float]) -> VerifiedRows:
    """What the target said behind a root alone."""
    return VerifiedRows([token], [-1], [list(best)], [list(scores)], [0])


def edges(tree: DraftTree) -> set[tuple[int, ...]]:
    """All paths of the tree, as tokens from the root."""
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(() if parent == ROOT else paths[parent]), token))
    return set(paths)


@pytest.mark.parametrize("kind", [Adjacency, Goose])
def test_what_was_learnt_is_drafted_where_nothing_repeats(kind: type[Adjacency] | type[Goose]) -> None:
    drafter = kind.for_request(DraftRequest())
    drafter.observe([1, 2])
    drafter.learn(answers(2, [3, 4], [0.75, 0.25]))
    drafter.observe([3])
    drafter.learn(answers(3, [2, 9], [0.75, 0.25]))
    drafter.observe([8, 2])
    tree = drafter.propose(8)
    assert {(3,), (3, 2), (3, 9), (4,)} <= edges(tree)
    assert (tree.sources or ())[tree.tokens.index(4)] == "adjacency"


@pytest.mark.parametrize("name", ["adjacency", "goose", "graft"])
def test_the_next_request_of_a_tenant_starts_warm(name: str) -> None:
    kind = {"adjacency": Adjacency, "goose": Goose, "graft": Graft}[name]
    memory = DraftMemory()
    first = kind.for_request(DraftRequest(tenant="a", memory=memory))
    first.observe([1, 2])
    first.learn(answers(2, [3], [0.9]))
    for tenant, tokens in (("a", (3,)), ("b", ()), (None, ())):
        drafter = kind.for_request(DraftRequest(tenant=tenant, memory=memory))
        drafter.observe([7, 2])
        assert drafter.propose(4).tokens == tokens


def test_goose_copies_a_spine_and_branches_from_the_table() -> None:
    goose = Goose.for_request(DraftRequest())
    goose.observe([1, 2, 3, 4, 5, 6, 7, 9, 2, 3])
    goose.learn(answers(3, [8], [0.9]))
    goose.observe([4])
    goose.learn(answers(4, [5, 6], [0.5, 0.5]))
    tree = goose.propose(8)
    assert {(5,), (5, 6), (5, 6, 7), (6,)} <= edges(tree)
    sources = dict(zip(tree.tokens, tree.sources or (), strict=True))
    assert sources[7] == "copy"
    assert sum(c for p, c in zip(tree.parents, tree.confidences or (), strict=True) if p == ROOT) <= 1


@dataclass
class Told(Drafter):
    """Proposes what it is told to."""

    tree: DraftTree
    learns_from = 3

    def observe(self, tokens: Sequence[int]) -> None:
        """Ignore the tokens."""

    def propose(self, budget: int) -> DraftTree:
        """The tree, cut."""
        return self.tree.kept(range(min(budget, len(self.tree))))

    def learn(self, rows: VerifiedRows) -> None:
        """Propose what was learnt."""
        self.tree = DraftTree.chain(rows.best[0], 0.5)


def graft(tree: DraftTree) -> Graft:
    """A graft that knows what follows 1 and 2, behind the text 0, 1."""
    table = AdjacencyTable()
    table.put(0, 1, [2, 3], [0.5, 0.4])
    table.put(1, 2, [1, 4], [0.5, 0.4])
    drafter = Graft(Told(tree), TableGuesses(table), threshold=0.3)
    drafter.observe([0, 1])
    return drafter


def test_weak_inner_nodes_give_their_place_to_the_table() -> None:
    inner = DraftTree((2, 7, 8, 9), (ROOT, 0, 1, 2), (0.9, 0.9, 0.2, 0.2), ("m",) * 4)
    tree = graft(inner).propose(4)
    assert {(2,), (2, 7)} < edges(tree) and len(tree) == 4
    assert (2, 7, 8) not in edges(tree)
    assert sorted(tree.sources or ()) == ["graft", "graft", "m", "m"]


def test_pruned_nodes_return_where_the_table_ends() -> None:
    inner = DraftTree((5, 6), (ROOT, 0), (0.1, 0.1))
    drafter = Graft(Told(inner))
    drafter.observe([0, 1])
    assert edges(drafter.propose(4)) == {(5,), (5, 6)}


@pytest.mark.parametrize("budget", range(1, 12))
def test_the_budget_is_used_up_exactly(budget: int) -> None:
    inner = DraftTree((2, 7, 3), (ROOT, ROOT, 0), (0.9, 0.05, 0.5))
    assert len(graft(inner).propose(budget)) == budget


def test_an_inner_tree_without_confidences_is_kept() -> None:
    assert {(7,), (7, 8)} < edges(graft(DraftTree((7, 8), (ROOT, 0))).propose(3))


def test_many_requests_are_grafted_at_once() -> None:
    drafters = [graft(DraftTree.chain([2, 7], 0.9)), graft(DraftTree.chain([9], 0.1))]
    one_by_one = [drafter.propose(budget) for drafter, budget in zip(drafters, (3, 5), strict=True)]
    assert Graft.propose_all(drafters, [3, 5]) == one_by_one
    assert Graft.propose_all([], []) == []


def test_the_inner_drafter_learns_too() -> None:
    drafter = graft(DraftTree())
    drafter.learn(answers(1, [6, 5], [0.6, 0.4]))
    assert {(6,), (6, 5)} <= edges(drafter.propose(3))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="floor"):
        Adjacency(floor=1.0)
    with pytest.raises(ValueError, match="copy_odds"):
        Goose(copy_odds=0.0)
    with pytest.raises(ValueError, match="threshold"):
        Graft(Told(DraftTree()), threshold=2.0)
    with pytest.raises(UnknownNameError):
        Graft.for_request(TENANT, inner="absent")
