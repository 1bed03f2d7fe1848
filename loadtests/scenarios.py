"""The load tests that `make loadtest SCENARIO=...` knows: what the service is given, and what Locust does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test. `arguments` are Locust's; `tenants` get an API key each; memory slopes leave out the first `settle_s`.

    With `ceiling`, what the generator can do at most is measured first, against a mock.
    """

    about: str
    arguments: tuple[str, ...]
    tenants: tuple[str, ...] = ()
    settle_s: float = 30.0
    ceiling: bool = False


_OPEN = ("--arrivals", "poisson")
SCENARIOS: Mapping[str, Scenario] = {
    "mixed": Scenario(
        "five minutes of all kinds of traffic from six users; the generator's own ceiling is measured first",
        ("--users", "6", "--run-time", "300"),
        ceiling=True,
    ),
    "quick": Scenario(
        "as mixed, for 20 seconds: to see that everything works", ("--users", "4", "--run-time", "20"), settle_s=2
    ),
    "spike": Scenario(
        "two tenants at a steady rate, ten times that for a tenth of the test",
        (*_OPEN, "--rate", "0.5", "--level", "spike", "--run-time", "150", "--mix", "chat=3,code=1"),
        tenants=("blue", "green"),
    ),
    "storm": Scenario(
        "twelve users, half of whom go away at once",
        ("--users", "12", "--run-time", "60", "--think-s", "0.2", "--storm-at", "0.5"),
        tenants=("blue", "green"),
    ),
    "sweep": Scenario(
        "1, 2, 4, 8 and 16 users without think time",
        ("--users", "1", "--level", "sweep", "--run-time", "200", "--think-s", "0"),
    ),
    "soak": Scenario(
        "2,000 requests, an hour of an application with one every two seconds: does memory grow?",
        ("--users", "6", "--run-time", "1500", "--think-s", "0", "--requests", "2000", "--max-tokens", "24"),
        settle_s=120,
    ),
}
