"""Rows of the load bench."""

from __future__ import annotations

import pytest

from service.bench.load import PLAIN, Phase, half_way, load_rows


def test_speedups_are_against_plain_in_the_same_phase() -> None:
    phases = [
        Phase(PLAIN, 0, 1, 2, 100, 10.0, 8.0, 0, 0),
        Phase("roofline", 0, 1, 2, 100, 5.0, 16.0, 60, 30),
        Phase("roofline", 1, 16, 32, 100, 10.0, 9.0, 0, 0),
        Phase(PLAIN, 1, 16, 32, 100, 9.0, 10.0, 0, 0),
    ]
    rows = {(row["contestant"], row["concurrency"]): row for row in load_rows(phases)}
    assert rows["roofline", 1]["speedup"] == pytest.approx(2.0)
    assert rows["roofline", 1]["early_speedup"] == pytest.approx(2.0)
    assert rows["roofline", 16]["speedup"] == pytest.approx(0.9)
    assert rows[PLAIN, 16]["speedup"] is None
    assert rows[PLAIN, 16]["tokens_per_second"] == pytest.approx(100 / 9)


def test_repeats_are_summed_and_their_own_speedups_told() -> None:
    phases = [
        Phase(PLAIN, 0, 4, 8, 100, 10.0, 8.0, 0, 0),
        Phase("roofline", 0, 4, 8, 100, 5.0, 8.0, 6, 3),
        Phase("roofline", 0, 4, 8, 100, 15.0, 8.0, 4, 1),
        Phase(PLAIN, 0, 4, 8, 100, 10.0, 8.0, 0, 0),
    ]
    plain, drafted = load_rows(phases)
    assert (plain["speedup"], plain["speedups"]) == (None, None)
    assert drafted["speedup"] == pytest.approx(1.0)
    assert drafted["speedups"] == pytest.approx([2.0, 2 / 3])
    assert (drafted["requests"], drafted["proposed"], drafted["accepted"]) == (16, 10, 4)


def test_half_of_the_text_counts_answers_that_are_still_coming() -> None:
    together = [(float(at), 5) for at in range(1, 11)]
    assert half_way(together) == 5.0
    assert half_way([*reversed(together), (9.5, 50)]) == 9.5
    assert half_way([(2.0, 7)]) == 2.0
