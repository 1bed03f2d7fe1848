"""Load over time."""

from __future__ import annotations

from random import Random

import pytest

from loadtests.arrivals import poisson
from loadtests.levels import LEVELS, SPIKE, SPIKE_AT, SWEEP, peak


def test_levels() -> None:
    assert [LEVELS["sweep"](share) for share in (0, 0.25, 0.5, 0.75, 0.999, 1)] == [*SWEEP, SWEEP[-1]]
    assert LEVELS["ramp"](0) == 0 and LEVELS["ramp"](0.4) == 0.5 and LEVELS["ramp"](0.9) == 1
    assert [LEVELS["spike"](share) for share in (0, SPIKE_AT[0], SPIKE_AT[1])] == [1, SPIKE, 1]
    assert {name: peak(level) for name, level in LEVELS.items()} == {
        "constant": 1,
        "ramp": 1,
        "step": 1,
        "spike": 10,
        "soak": 1,
        "sweep": 16,
    }


def test_a_poisson_process_has_its_rate_and_its_spread() -> None:
    counts = [len(list(poisson(5.0, LEVELS["constant"], 100.0, Random(seed)))) for seed in range(200)]
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)
    assert mean == pytest.approx(500, abs=8)  # standard error 1.6
    assert variance == pytest.approx(500, rel=0.4)  # a Poisson count's variance is its mean; standard error 10 %


def test_a_spike_arrives_when_it_should() -> None:
    due = [at for seed in range(50) for at in poisson(2.0, LEVELS["spike"], 100.0, Random(seed))]
    inside = sum(40 <= at < 50 for at in due) / 50
    outside = sum(not 40 <= at < 50 for at in due) / 50
    assert inside == pytest.approx(200, rel=0.05)
    assert outside == pytest.approx(180, rel=0.05)
    assert due[:3] == sorted(due[:3]) and max(due) < 100


def test_a_seed_gives_the_same_arrivals() -> None:
    first, again, other = (list(poisson(1.0, LEVELS["ramp"], 50.0, Random(seed))) for seed in (1, 1, 2))
    assert first == again != other
