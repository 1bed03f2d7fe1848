"""The cost model learns what steps cost."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from service.speculation.controller import Outcome, Plan, Step
from service.speculation.cost import CostModel, DraftCost
from tests.speculation.controllers.machine import CPU, FLAT, Machine


def true_cost(requests: int, rows: int, context: int) -> float:
    return 0.030 + 0.001 * rows + 0.0005 * requests + 2e-6 * context


def trained(noise: float, steps: int, scale: float = 1.0, model: CostModel | None = None) -> CostModel:
    generator = random.Random(7)
    model = model or CostModel()
    for _ in range(steps):
        requests = generator.choice([1, 2, 4, 8])
        rows = requests * generator.choice([1, 4, 8, 12])
        context = requests * generator.randrange(50, 2000)
        seconds = scale * true_cost(requests, rows, context) * generator.uniform(1 - noise, 1 + noise)
        model.observe(requests=requests, rows=rows, context=context, verify_s=seconds)
    return model


CELLS = [(1, 1, 100), (1, 12, 500), (4, 32, 4000), (8, 96, 8000)]


@pytest.mark.parametrize(("requests", "rows", "context"), CELLS)
def test_it_finds_the_cost(requests: int, rows: int, context: int) -> None:
    predicted = trained(0.1, 400).verify_s(requests=requests, rows=rows, context=context)
    assert predicted == pytest.approx(true_cost(requests, rows, context), rel=0.1)


def test_it_follows_a_machine_that_slows_down() -> None:
    model = trained(0.05, 1000, scale=2.0, model=trained(0.05, 300))
    assert model.verify_s(requests=4, rows=32, context=4000) == pytest.approx(2 * true_cost(4, 32, 4000), rel=0.1)


def test_one_interrupted_step_moves_it_little() -> None:
    model = trained(0.05, 300)
    model.observe(requests=4, rows=32, context=4000, verify_s=60.0)
    assert model.verify_s(requests=4, rows=32, context=4000) == pytest.approx(true_cost(4, 32, 4000), rel=0.25)


def test_it_says_nothing_before_it_saw_two_widths() -> None:
    model = CostModel()
    for _ in range(50):
        model.observe(requests=1, rows=1, context=100, verify_s=0.03)
    assert not model.ready and model.verify_s(requests=1, rows=1, context=100) is None
    model.observe(requests=1, rows=8, context=100, verify_s=0.035)
    assert model.ready


def test_an_impossible_forgetting_is_refused() -> None:
    with pytest.raises(ValueError, match="forgetting"):
        CostModel(forgetting=0)


@pytest.mark.parametrize("table", [CPU, FLAT], ids=["cpu", "gpu"])
@pytest.mark.parametrize("requests", [1, 8, 16])
def test_it_bends_where_the_machine_does(table: Mapping[int, float], requests: int) -> None:
    machine, generator, model = Machine(table, noise=0.05), random.Random(1), CostModel()
    for _ in range(600):
        batch, drafts = generator.choice([1, 2, 4, 8, 16]), generator.choice([0, 0, 1, 3, 7, 11])
        rows, context = batch * (drafts + 1), batch * generator.randrange(100, 900)
        seconds = machine.seconds(rows, generator)
        model.observe(requests=batch, rows=rows, context=context, verify_s=seconds)
    rows_of = requests * np.array([1.0, 2.0, 4.0, 8.0, 12.0])
    curve = model.curve(requests, rows_of, requests * 400)
    assert curve is not None
    assert curve == pytest.approx([machine.unit * machine.cost(rows) for rows in rows_of], rel=0.06)


def test_a_thousand_plain_steps_do_not_drown_the_wide_ones() -> None:
    model = trained(0.02, 300)
    for _ in range(5000):
        model.observe(requests=4, rows=4, context=4000, verify_s=2 * true_cost(4, 4, 4000))
    wide, plain = (model.verify_s(requests=4, rows=rows, context=4000) for rows in (32, 4))
    assert wide is not None and plain is not None
    assert wide == pytest.approx(2 * true_cost(4, 32, 4000), rel=0.15)
    assert wide / plain == pytest.approx(true_cost(4, 32, 4000) / true_cost(4, 4, 4000), rel=0.08)


def plan_of(drafter: str, budget: int, *shadows: str) -> Outcome:
    return Outcome("r", Plan(drafter, budget, shadows), budget, 0)


def test_draft_seconds_are_kept_by_drafter_and_budget() -> None:
    cost = DraftCost()
    cost.observe(Step((plan_of("suffix", 4), plan_of("suffix", 4)), 10, 100, 0.002, 0.04))
    assert cost.seconds("suffix", 4) == cost.seconds("suffix", 11) == pytest.approx(0.001)
    assert cost.seconds("pard", 4) == 0.0
    mixed = (plan_of("suffix", 4, "pard"), plan_of("pard", 4, "suffix"))
    cost.observe(Step(mixed, 10, 100, 0.05, 0.04))
    assert cost.seconds("pard", 4) == 0.0, "nobody said who took the time"
    cost.observe(Step(mixed, 10, 100, 0.05, 0.04, {"suffix": 0.002, "pard": 0.048}))
    assert cost.seconds("pard", 4) == pytest.approx(0.024)
    assert cost.seconds("suffix", 4) == pytest.approx(0.001)


def test_the_same_step_counts_once() -> None:
    cost, step = DraftCost(rate=1.0), Step((plan_of("suffix", 4),), 5, 100, 0.001, 0.04)
    cost.observe(step)
    cost._add("suffix", 4, 0.002)
    cost.observe(step)
    assert cost.seconds("suffix", 4) == pytest.approx(0.002)
