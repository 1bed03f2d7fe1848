"""The adjacency table: overwritten by the newest, bounded, and blended by trust."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.drafter import DraftRequest, VerifiedRows
from service.speculation.memory import DraftMemory
from service.speculation.table_guesses import TableGuesses

ROWS = VerifiedRows(
    tokens=[5, 6, 7, 5],
    parents=[-1, 0, 0, 1],
    best=[[6, 7], [8, 9], [5, 6], [6, 3]],
    scores=[[0.75, 0.25], [0.5, 0.25], [0.5, 0.5], [0.75, 0.125]],
    accepted=[0, 1],
)


def test_every_row_teaches_its_token_and_its_pair() -> None:
    table = AdjacencyTable()
    table.learn(ROWS, before_root=4)
    assert table.pair(4, 5) == ([6, 7], [0.75, 0.25])
    assert table.pair(5, 6) == ([8, 9], [0.5, 0.25])
    assert table.pair(5, 7) == table.single(7) == ([5, 6], [0.5, 0.5])
    assert table.pair(6, 5) == ([6, 3], [0.75, 0.125])
    assert table.pair(7, 5) is None and table.single(8) is None


def test_accepted_rows_overwrite_rejected_ones() -> None:
    table = AdjacencyTable()
    table.learn(ROWS, before_root=None)
    assert table.single(5) == ([6, 7], [0.75, 0.25])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60), st.integers(1, 4), st.integers(1, 4))
def test_it_stays_within_its_bounds_and_keeps_the_newest(
    contexts: list[tuple[int, int]], singles: int, pairs: int
) -> None:
    table = AdjacencyTable(width=2, singles=singles, pairs=pairs)
    for number, (before, token) in enumerate(contexts):
        table.put(before, token, [number, 0, 1], [0.5, 0.25, 0.125])
        assert table.pair(before, token) == table.single(token) == ([number, 0], [0.5, 0.25])
    assert len(table) <= singles + pairs


def test_a_table_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="needs room"):
        AdjacencyTable(pairs=0)


def test_chances_are_blended_by_trust() -> None:
    guesses = TableGuesses(AdjacencyTable(), pair_trust=0.5, single_trust=0.5)
    guesses.table.put(1, 2, [3, 4], [0.75, 0.25])
    assert guesses.after(9, 2) == pytest.approx({3: 0.375, 4: 0.125})
    assert guesses.after(1, 2) == pytest.approx({3: 0.75 * 0.75, 4: 0.75 * 0.25})
    assert guesses.after(1, 9) == {} == guesses.after(None, 9)


def test_tenants_share_a_table_of_their_own_only() -> None:
    memory = DraftMemory()
    first, again, other, nobody, noone = (
        TableGuesses.for_request(DraftRequest(tenant=tenant, memory=memory), None).table
        for tenant in ("a", "a", "b", None, None)
    )
    assert first is again
    assert len({id(table) for table in (first, other, nobody, noone)}) == 4
