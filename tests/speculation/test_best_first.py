"""Best-first growth against all nodes sorted by chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.best_first import Guess, grow
from service.speculation.tree import ROOT, DraftTree, TreeBuilder

Path = tuple[int, ...]
Table = dict[int, list[tuple[int, float]]]

tables = st.dictionaries(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.05, 0.9)), max_size=4, unique_by=lambda guess: guess[0]),
    min_size=4,
    max_size=4,
)


def grown(table: Table, limit: int, floor: float = 0.0, planted: Path = ()) -> DraftTree:
    def guesses(path: Path) -> list[Guess]:
        return sorted(((chance, token, "t") for token, chance in table[path[-1]]), reverse=True)

    builder = TreeBuilder(limit)
    builder.add_chain(ROOT, planted, 0.5)
    grow(builder, (0,), guesses, lambda path, token: (*path, token), floor=floor)
    return builder.build()


def all_chances(table: Table, depth: int) -> list[float]:
    """Chances of all nodes down to this depth."""
    found: list[float] = []
    level = [(0, 1.0)]
    for _ in range(depth):
        level = [(token, above * chance) for last, above in level for token, chance in table[last]]
        found += [chance for _, chance in level]
    return sorted(found, reverse=True)


@given(table=tables, limit=st.integers(1, 5))
def test_the_likeliest_nodes_are_grown(table: Table, limit: int) -> None:
    chances = grown(table, limit).chances() or ()
    assert sorted(chances, reverse=True) == pytest.approx(all_chances(table, limit)[:limit])


@given(table=tables, limit=st.integers(1, 12), floor=st.floats(0.01, 0.5))
def test_unlikely_nodes_are_left_out(table: Table, limit: int, floor: float) -> None:
    assert all(chance > floor for chance in grown(table, limit, floor).chances() or ())


def test_it_grows_from_what_is_there_and_drafts_nothing_twice() -> None:
    tree = grown({0: [(1, 0.5), (2, 0.4)], 1: [(3, 0.5)], 2: [], 3: []}, 4, planted=(1, 2))
    assert tree.tokens == (1, 2, 2, 3) and tree.parents == (ROOT, 0, ROOT, 0)
