"""The cost model learns what steps cost."""

from __future__ import annotations

import random

import pytest

from service.speculation.cost import CostModel


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
