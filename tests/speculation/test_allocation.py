"""Draft tokens go where they are worth most."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.allocation import Offer, allocate
from service.speculation.controller import Outcome, Plan
from service.speculation.cost import Floats
from service.speculation.gains import Gains
from service.speculation.tree import DraftTree


def cost(rows: Floats, starts: Floats) -> Floats:
    """Dearer the more rows there are."""
    return np.asarray(1 + 0.05 * (rows + starts) + 0.004 * (rows + starts) ** 2)


falling = st.lists(st.floats(0.05, 0.95), min_size=0, max_size=4).map(lambda chances: np.cumprod([*chances]))


@given(st.lists(falling, min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_it_is_as_good_as_brute_force(gains: list[Floats]) -> None:
    offers = [Offer(own, np.ones(len(own))) for own in gains]
    chosen = allocate(offers, len(offers), cost)
    best = 0.0
    for nodes in product(*(range(len(own) + 1) for own in gains)):
        if sum(nodes):
            tokens = 1 + sum(float(own[:n].sum()) for own, n in zip(gains, nodes, strict=True)) / len(offers)
            best = max(best, tokens / float(cost(np.array([float(sum(nodes))]), np.zeros(1))[0]))
    assert chosen.speedup == pytest.approx(best or 1.0)


def test_a_dear_start_is_paid_by_many_ranks_or_not_at_all() -> None:
    good, poor = np.cumprod([0.9] * 8), np.cumprod([0.4] * 8)
    chosen = allocate([Offer(good, np.ones(8), 4.0), Offer(poor, np.ones(8), 4.0)], 2, cost)
    assert chosen.nodes[0] > 4 and chosen.nodes[1] == 0
    assert chosen.for_all < chosen.speedup


def test_nothing_offered_is_a_plain_step() -> None:
    assert allocate([Offer(np.zeros(0), np.zeros(0))], 1, cost).nodes == (0,)


def outcome(budget: int, proposed: int, accepted: int) -> Outcome:
    return Outcome("r", Plan("a", budget), proposed, accepted)


def test_gains_count_by_rank() -> None:
    gains = Gains(6, trust=0.01)
    for _ in range(50):
        gains.observe(outcome(6, 4, 2))
    accepted, rows = gains.expected()
    assert accepted == pytest.approx([1, 1, 0, 0, 0, 0], abs=0.01)
    assert rows == pytest.approx([1, 1, 1, 1, 0, 0], abs=0.01)


def test_a_branch_counts_where_it_stands() -> None:
    gains, tree = Gains(4, trust=0.01), DraftTree((1, 2, 3), (-1, -1, 1))
    for _ in range(50):
        gains.observe(Outcome("r", Plan("a", 4), 3, 2, tree=tree, path=(1, 2)))
    assert gains.expected()[0] == pytest.approx([0, 1, 1, 0], abs=0.01)


def test_ranks_that_were_never_asked_for_follow_the_others() -> None:
    good, bad = Gains(8), Gains(8)
    for _ in range(50):
        good.observe(outcome(3, 3, 3))
        bad.observe(outcome(3, 3, 0))
    assert good.expected()[0][7] > 0.6
    assert bad.expected()[0][7] < 0.01
