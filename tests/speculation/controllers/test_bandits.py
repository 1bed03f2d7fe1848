"""Bandit controllers: regret on scripted arms, cost, short requests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from service.speculation.arms import ArmController, bucket_of
from service.speculation.controller import Outcome, Plan, RequestView, Setting, Step, build_controller
from service.speculation.controllers.exp3 import Exp3
from service.speculation.controllers.hedge import Hedge
from service.speculation.controllers.ucb import Ucb
from tests.speculation.controllers.machine import CPU, FLAT, KnownCost, Machine
from tests.speculation.controllers.simulation import Habit, World, expected_rate

BUDGET = 3
NAMES = ("a", "b", "c", "d")


def free_setting(names: Sequence[str] = NAMES, seed: int = 0) -> Setting:
    """Rows cost nothing: a round is worth its tokens."""
    return Setting(tuple(names), BUDGET, KnownCost(machine=Machine({1: 1.0, 512: 1.0})), seed)


def play(controller: ArmController, accepted: Callable[[int, str], int], rounds: int, key: str = "r") -> list[int]:
    """Rounds of one request; `accepted(round, drafter)` is the script. What was accepted in each round."""
    got = []
    for t in range(rounds):
        (plan,) = controller.plan([RequestView(key, BUDGET, t, 100)])
        count = accepted(t, plan.drafter) if plan.drafter else 0
        shadows = {name: accepted(t, name) for name in plan.shadows}
        outcome = Outcome(key, plan, BUDGET if plan.drafter else 0, count, shadows)
        controller.observe(Step((outcome,), 1 + outcome.proposed, 100, 0.0, 0.04))
        got.append(count)
    return got


def binomial(chances: dict[str, float], seed: int) -> Callable[[int, str], int]:
    """Scripted arms: accepted drafts ~ Binomial(BUDGET, chance), sub-Gaussian with the range of the theory."""
    generator = random.Random(seed)
    return lambda _t, name: sum(generator.random() < chances[name] for _ in range(BUDGET))


CHANCES = {"a": 0.2, "b": 0.35, "c": 0.9, "d": 0.1}


def published_radius(n: float, t: float, arms: int, delta: float = 0.05) -> float:
    inside = 1 + 2 * math.log(arms * t**2 * math.sqrt(1 + n) / delta)
    return BUDGET / 2 * math.sqrt((1 + n) / n**2 * inside)


@pytest.mark.parametrize("seed", range(3))
def test_ucb_pulls_bad_arms_as_rarely_as_published(seed: int) -> None:
    rounds = 4000
    ucb = Ucb(free_setting(), off=False, scale=1.0, measured=False, discount=1.0, prior=0.0)
    play(ucb, binomial(CHANCES, seed), rounds)
    pulls = dict(zip(NAMES, ucb._pulls.tolist(), strict=True))
    for name in "abd":
        gap = BUDGET * (CHANCES["c"] - CHANCES[name])
        enough = next(n for n in range(1, rounds) if 2 * published_radius(n, rounds, len(NAMES)) < gap)
        assert pulls[name] <= enough + 1, (name, pulls, enough)


def test_ucb_regret_is_logarithmic_where_random_choice_is_linear() -> None:
    ucb = Ucb(free_setting(), off=False, scale=0.2, measured=False, discount=1.0, prior=0.0)
    got = play(ucb, binomial(CHANCES, 1), 4000)
    best = BUDGET * CHANCES["c"]
    early, late = best * 1000 - sum(got[:1000]), best * 3000 - sum(got[1000:])
    at_random = best - BUDGET * sum(CHANCES.values()) / 4
    noise = 3 * math.sqrt(3000 * BUDGET * 0.09)
    assert early < 0.1 * at_random * 1000
    assert late < early * math.log(4000) / math.log(1000) + noise < 0.05 * at_random * 3000


def changing(t: int, name: str) -> int:
    """An adversary's script: the best arm changes, and looks worst for a while first."""
    return {"a": 3 if t % 4 else 0, "b": 2, "c": 3 if t > 1000 else 0, "d": 1}[name]


def regret(got: Sequence[int], rounds: int) -> float:
    """In losses of [0, 1], as the theorems count: tokens over budget + 1."""
    best = max(sum(changing(t, name) for t in range(rounds)) for name in NAMES)
    return (best - sum(got)) / (BUDGET + 1)


def test_exp3_regret_is_within_the_published_bound() -> None:
    rounds, regrets = 2000, []
    for seed in range(3):
        exp3 = Exp3(free_setting(seed=seed), off=False, discount=1.0, prior=0.0, span=0.0, eagerness=1.0, centred=False)
        regrets.append(regret(play(exp3, changing, rounds), rounds))
    assert sum(regrets) / len(regrets) <= 2 * math.sqrt(rounds * 4 * math.log(4))


def test_hedge_regret_is_within_the_published_bound() -> None:
    rounds, regrets = 2000, []
    for seed in range(3):
        hedge = Hedge(free_setting(seed=seed), off=False, discount=1.0, prior=0.0, span=0.0, eagerness=1.0)
        regrets.append(regret(play(hedge, changing, rounds), rounds))
    assert sum(regrets) / len(regrets) <= math.sqrt(2 * rounds * math.log(4)) + math.sqrt(math.log(4) / 8)


@pytest.mark.parametrize("kind", [Ucb, Hedge])
def test_short_requests_profit_from_those_before(kind: type[ArmController]) -> None:
    names = tuple("abcdefgh")
    chances = {**dict.fromkeys(names, 0.1), "f": 0.95}
    tokens = {}
    for prior in (8.0, 0.0):
        controller = kind(free_setting(names), prior=prior)
        script = binomial(chances, 3)
        got = []
        for number in range(150):
            got += play(controller, script, 5, key=f"r{number}")
            controller.forget(f"r{number}")
        tokens[prior] = sum(got[-500:]) / 500
    assert tokens[8.0] > 0.85 * 0.95 * BUDGET
    assert tokens[8.0] > tokens[0.0]


@pytest.mark.parametrize("kind", [Ucb, Exp3, Hedge])
def test_a_slow_drafter_must_earn_its_time(kind: type[ArmController]) -> None:
    text = {"slow": Habit(1, 0.8, seconds=0.08), "quick": Habit(1, 0.6)}
    machine = Machine(CPU)
    assert expected_rate(text["quick"], 1, 7, machine) > 1.3 * expected_rate(text["slow"], 1, 7, machine)
    setting = Setting(("slow", "quick"), 7, KnownCost())
    world = World(kind(setting), setting.cost)
    for _ in range(400):
        world.step({"r": text}, 7)
    pulls = world.controller.state()["pulls"]
    assert isinstance(pulls, dict) and pulls["quick@7"] > 2 * pulls["slow@7"]


@pytest.mark.parametrize("kind", [Ucb, Hedge])
def test_it_turns_off_where_no_draft_pays(kind: type[ArmController]) -> None:
    text = {"a": Habit(1, 0.02), "b": Habit(1, 0.05)}
    setting = Setting(("a", "b"), 11, KnownCost())
    world = World(kind(setting), setting.cost)
    for _ in range(300):
        world.step({"r": text}, 11)
    world.nodes = 0
    for _ in range(200):
        world.step({"r": text}, 11)
    assert world.nodes < 0.1 * 200 * 11


def test_ucb_follows_a_text_that_changes() -> None:
    ucb = Ucb(free_setting(("a", "b")), off=False)
    got = play(ucb, lambda t, name: 3 if (name == "a") == (t < 300) else 0, 600)
    assert sum(got[500:]) > 0.9 * 3 * 100


def test_an_arm_that_was_overruled_learns_nothing() -> None:
    ucb = Ucb(free_setting(("a",)))
    ucb.plan([RequestView("r", BUDGET, 0, 100)])
    ucb.observe(Step((Outcome("r", Plan(None, 0), 0, 0),), 1, 100, 0.0, 0.04))
    assert ucb._pulls.sum() == 0


def test_requests_of_one_step_share_out_the_unknown_arms() -> None:
    ucb = Ucb(free_setting(), off=False)
    plans = ucb.plan([RequestView(str(i), BUDGET, 0, 100) for i in range(4)])
    assert {plan.drafter for plan in plans} == set(NAMES)


def test_an_ended_request_is_forgotten() -> None:
    for controller in (Ucb(free_setting()), Exp3(free_setting()), Hedge(free_setting())):
        play(controller, lambda t, name: 1, 10)
        controller.forget("r")
        assert not controller._own and not controller._chosen


def test_hedge_asks_only_cheap_drafters_for_shadows() -> None:
    setting = Setting(("other", "quick", "dear"), 7, KnownCost(machine=Machine(FLAT)))
    world = World(Hedge(setting), setting.cost)
    cheap = Habit(1, 0.6, seconds=0.0001)
    text = {"other": cheap, "quick": cheap, "dear": Habit(1, 0.6, seconds=0.01)}
    for _ in range(20):
        world.step({"r": text}, 7)
    plans = [world.controller.plan([RequestView("r", 7, 9, 100)])[0] for _ in range(20)]
    assert all({"other", "quick"} <= {plan.drafter, *plan.shadows} for plan in plans)
    assert not any("dear" in plan.shadows for plan in plans)


def test_widths_vary_until_costs_are_known() -> None:
    setting = Setting(("a",), 7, KnownCost())
    fresh = Setting(("a",), 7, type(setting.cost).__mro__[1]())
    world = World(Ucb(fresh, off=False), fresh.cost)
    for _ in range(20):
        world.step({"r": {"a": Habit(1, 0.5)}}, 7)
    assert fresh.cost.ready


@pytest.mark.parametrize(("batch", "bucket"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)])
def test_batch_buckets(batch: int, bucket: int) -> None:
    assert bucket_of(batch) == bucket


def test_bandits_stand_last() -> None:
    with pytest.raises(ValueError, match="last"):
        build_controller(("ucb", "fixed"), free_setting())
    with pytest.raises(ValueError, match="shares"):
        Ucb(free_setting(), shares=())
    with pytest.raises(ValueError, match="discount"):
        Ucb(free_setting(), discount=0.0)
