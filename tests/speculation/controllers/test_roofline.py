"""The roofline switch: decisions against brute force, load steps, hysteresis, finding back."""

from __future__ import annotations

import pytest

from service.speculation.controller import DraftController, Setting, build_controller
from service.speculation.controllers.fixed import Fixed
from service.speculation.controllers.roofline import Roofline
from service.speculation.cost import CostModel
from tests.speculation.controllers.machine import CPU, FLAT, KnownCost, Machine
from tests.speculation.controllers.simulation import Habit, World, expected_rate

BUDGET = 11
NOISY = Machine(CPU, noise=0.05)


def world_of(*names: str, machine: Machine = NOISY, drafters: tuple[str, ...] = ("a",), seed: int = 0) -> World:
    setting = Setting(drafters, BUDGET, CostModel(), seed)
    return World(build_controller(names, setting), setting.cost, machine, seed=seed)


def crowd(count: int, habit: Habit) -> dict[str, dict[str, Habit]]:
    return {f"r{i}": {"a": habit} for i in range(count)}


def best_nodes(habit: Habit, batch: int, machine: Machine) -> tuple[int, float]:
    """Brute force over the table: the best number of draft tokens for each, and its speedup."""
    rates = [(0, 1.0), *((n, expected_rate(habit, batch, n, machine)) for n in range(1, BUDGET + 1))]
    return max(rates, key=lambda pair: pair[1])


CELLS = [
    (table, batch, Habit(1.0, accepts, seconds))
    for table in (CPU, FLAT)
    for batch in (1, 4, 8, 16)
    for accepts in (0.02, 0.15, 0.4, 0.7, 0.9)
    for seconds in (0.0, 0.004)
]


def test_it_decides_as_brute_force_over_the_table() -> None:
    wrong, worth = [], []
    for table, batch, habit in CELLS:
        machine = Machine(table, noise=0.05)
        world = world_of("roofline", "fixed", machine=machine)
        for _ in range(100):
            world.step(crowd(batch, habit), BUDGET)
        world.tokens, world.seconds, world.nodes = 0, 0.0, 0
        for _ in range(40):
            world.step(crowd(batch, habit), BUDGET)
        nodes, speedup = best_nodes(habit, batch, machine)
        drafts = world.nodes / (40 * batch) > 0.5
        if drafts != (nodes > 0):
            wrong.append((batch, habit, nodes, speedup))
        worth.append(world.tokens / world.seconds * machine.unit * machine.cost(batch) / batch / speedup)
    assert len(wrong) <= 0.1 * len(CELLS), wrong
    assert sorted(worth)[len(worth) // 10] > 0.85, "and gets nearly the best speedup in nine of ten cells"


@pytest.mark.parametrize(
    ("names", "honest"),
    [(("roofline", "fixed"), True), (("roofline", "dcut", "ucb"), True), (("roofline", "dcut", "fixed"), False)],
    ids=["roofline", "honest-dcut", "boasting-dcut"],
)
@pytest.mark.parametrize("habit", [Habit(1, 0.1), Habit(0.6, 0.6), Habit(0.9, 0.9)], ids=["bad", "fair", "good"])
def test_a_load_step_does_not_collapse(names: tuple[str, ...], habit: Habit, honest: bool) -> None:
    world = world_of(*names)
    world.honest = honest
    for _ in range(150):
        world.step(crowd(1, habit), BUDGET)
    loads = [16] * 100 + [1] * 60 + [16] * 100 + [8] * 100
    rates = []
    for load in loads:
        tokens, seconds = world.step(crowd(load, habit), BUDGET)
        rates.append(tokens / seconds * NOISY.unit * NOISY.cost(load) / load)
    assert sum(rates[:20]) / 20 > 0.9, "the first steps after the load step"
    for start in [20, 60, 170, 210, 265, 310]:
        window = rates[start : start + 40]
        # Noise of the step times alone moves the mean of forty steps by nearly one percent.
        assert sum(window) / len(window) > 0.97 - 0.008, (start, habit)


def test_a_crowd_never_pays_for_drafts() -> None:
    for load in (8, 16, 32):
        world = world_of("roofline", "fixed")
        for _ in range(60):
            world.step(crowd(load, Habit(1, 0.12)), BUDGET)
        world.tokens, world.seconds = 0, 0.0
        for _ in range(200):
            world.step(crowd(load, Habit(1, 0.12)), BUDGET)
        assert world.tokens / world.seconds * NOISY.unit * NOISY.cost(load) / load > 0.975


def roofline_on(world: World, batch: str) -> tuple[bool, int]:
    gates = world.controller.state()["gates"]
    assert isinstance(gates, dict)
    return gates[batch]["on"], gates[batch]["toggles"]


def test_it_does_not_flap_near_the_edge() -> None:
    accepts = next(a / 1000 for a in range(1000) if best_nodes(Habit(1, a / 1000), 8, NOISY)[1] > 1.01)
    world = world_of("roofline", "fixed")
    for _ in range(1500):
        world.step(crowd(8, Habit(1, accepts)), BUDGET)
    assert roofline_on(world, "8")[1] <= 6


def test_it_stays_as_it_is_for_a_while() -> None:
    world = world_of("roofline", "fixed")
    changes, before = [], None
    for step in range(600):
        world.step(crowd(8, Habit(1, 0.9 if step // 50 % 2 else 0.02)), BUDGET)
        toggles = world.controller.state()["gates"]
        now = toggles["8"]["toggles"] if isinstance(toggles, dict) and "8" in toggles else 0
        if before is not None and now != before:
            changes.append(step)
        before = now
    assert len(changes) >= 4, "it follows"
    assert all(later - earlier > 20 for earlier, later in zip(changes, changes[1:], strict=False))


@pytest.mark.parametrize("batch", [1, 8])
def test_it_finds_back(batch: int) -> None:
    world = world_of("roofline", "fixed")
    for _ in range(400):
        world.step(crowd(batch, Habit(1, 0.01)), BUDGET)
    for _ in range(200):
        world.step(crowd(batch, Habit(1, 0.9)), BUDGET)
    world.tokens, world.seconds = 0, 0.0
    for _ in range(50):
        world.step(crowd(batch, Habit(1, 0.9)), BUDGET)
    assert world.tokens / world.seconds * NOISY.unit * NOISY.cost(batch) / batch > 1.5


def test_a_new_request_is_tried_soon() -> None:
    world = world_of("roofline", "fixed")
    for number in range(20):
        for _ in range(60):
            world.step({f"bad{number}": {"a": Habit(1, 0.01)}}, BUDGET)
        world.controller.forget(f"bad{number}")
    tokens = sum(world.step({"good": {"a": Habit(1, 0.95)}}, BUDGET)[0] for _ in range(60))
    assert tokens > 2 * 60


def test_trials_take_a_share_of_the_time_only() -> None:
    setting = Setting(("a",), BUDGET, KnownCost())
    world = World(Roofline(setting, Fixed(setting)), setting.cost)
    for _ in range(100):
        world.step(crowd(16, Habit(1, 0.0)), BUDGET)
    world.seconds = 0.0
    for _ in range(500):
        world.step(crowd(16, Habit(1, 0.0)), BUDGET)
    assert world.seconds < 500 * world.machine.unit * world.machine.cost(16) * 1.011


def test_an_expensive_drafter_is_charged() -> None:
    world = world_of("roofline", "fixed")
    for _ in range(100):
        world.step(crowd(8, Habit(1, 0.7, seconds=0.05)), BUDGET)
    assert not roofline_on(world, "8")[0]


def test_an_ended_request_is_forgotten() -> None:
    world = world_of("roofline", "dcut", "ucb")
    for _ in range(30):
        world.step(crowd(2, Habit(1, 0.3)), BUDGET)
    for key in ("r0", "r1"):
        world.controller.forget(key)
    assert isinstance(world.controller, Roofline)
    assert not world.controller._own and not world.controller._probing._waits


def test_impossible_settings_are_refused() -> None:
    setting = Setting(("a",), BUDGET, CostModel())
    with pytest.raises(ValueError, match="roofline"):
        build_controller(("roofline",), setting)
    with pytest.raises(ValueError, match="off <= 1 <= on"):
        Roofline(setting, Fixed(setting), on=0.9)


def test_every_stack_can_be_built() -> None:
    for names in (("roofline", "dcut", "hedge"), ("dcut", "roofline", "exp3"), ("roofline", "roofline", "fixed")):
        assert isinstance(build_controller(names, Setting(("a", "b"), BUDGET, CostModel())), DraftController)
