"""What a controller is: it chooses drafter and number of draft tokens for every request and step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from service.registry import Registry
from service.speculation.tree import DraftTree

if TYPE_CHECKING:
    from service.speculation.cost import CostModel


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request of the coming decode step.

    `limit` is the largest number of draft tokens that it can use (>= 1); `generated` and `context` count its output
    tokens and all its tokens.
    """

    key: str
    limit: int
    generated: int
    context: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one request drafts in one step: `drafter` None or `budget` 0 means a plain step.

    `shadows` are drafters that propose as well, at the same budget, without being verified: what they would have got
    accepted comes back in `Outcome.shadows`.
    """

    drafter: str | None
    budget: int
    shadows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one request's step gave. `proposed` are the verified draft tokens, `accepted` those committed.

    `plan` is the plan that was followed. `tree` is what was verified and `path` its accepted nodes, so that chances can
    be compared with what came; None where the engine does not tell. `shadow_nodes` are the sizes of the shadows' trees.
    """

    key: str
    plan: Plan
    proposed: int
    accepted: int
    shadows: Mapping[str, int] = field(default_factory=dict)
    tree: DraftTree | None = None
    path: tuple[int, ...] = ()
    shadow_nodes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of the whole batch. Times are wall seconds; `rows` are tokens in the verify pass, roots
    included; `context` is the sum of the requests' lengths in tokens.

    `drafter_s` are the seconds that each drafter took for all requests that it drafted for, shadows included; empty
    where the engine does not tell them apart. Requests that may not be drafted for have rows, but no outcome.
    """

    outcomes: tuple[Outcome, ...]
    rows: int
    context: int
    draft_s: float
    verify_s: float
    drafter_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """Requests of the pass, those without an outcome included."""
        return self.rows - sum(outcome.proposed for outcome in self.outcomes)


@dataclass(frozen=True)
class Setting:
    """What a controller controls: the drafters it may choose from (never empty, without `none`), the draft tokens
    allowed a request and step, the cost model that all controllers of an engine share, and a seed."""

    drafters: tuple[str, ...]
    budget: int
    cost: CostModel
    seed: int = 0


class DraftController(ABC):
    """Plans each step and learns from its outcome. One instance serves one engine.

    No choice may depend on tokens that are not committed yet: then the output keeps its distribution whatever the
    controller does (BanditSpec, proposition 1). All methods run in the scheduler and must not block.
    """

    @classmethod
    def for_engine(cls, setting: Setting, inner: DraftController | None = None, **options: Any) -> Self:
        """The controller of one engine. A wrapper takes the `inner` one; others refuse it with ValueError."""
        if inner is not None:
            raise ValueError(f"controller {cls.__name__} chooses by itself and can only stand last in the list")
        return cls(setting, **options)  # type: ignore[call-arg]

    @abstractmethod
    def plan(self, requests: Sequence[RequestView]) -> list[Plan]:
        """One plan for each request. Mutates the controller."""

    def trim(self, requests: Sequence[RequestView], trees: Sequence[DraftTree]) -> list[DraftTree]:
        """Cut the proposed trees before they are verified; as they are, unless overridden."""
        del requests
        return list(trees)

    def observe(self, step: Step) -> None:  # noqa: B027  (a fixed choice learns nothing)
        """Learn from a finished step. Mutates the controller."""

    def forget(self, key: str) -> None:  # noqa: B027
        """A request ended: drop what is kept for it. Mutates the controller."""

    def state(self) -> Mapping[str, object]:
        """What it believes now, for people: JSON-able names and numbers."""
        return {}


CONTROLLERS = {
    "fixed": "service.speculation.controllers.fixed:Fixed",
    "ucb": "service.speculation.controllers.ucb:Ucb",
    "exp3": "service.speculation.controllers.exp3:Exp3",
    "hedge": "service.speculation.controllers.hedge:Hedge",
    "roofline": "service.speculation.controllers.roofline:Roofline",
    "dcut": "service.speculation.controllers.dcut:DCut",
}
"""Built-in controllers: name and class, imported when the controller is used."""


def controller_registry() -> Registry[type[DraftController]]:
    """The classes of controllers by name, third parties' included; building it imports no controller."""
    registry: Registry[type[DraftController]] = Registry("controllers")
    for name, path in CONTROLLERS.items():
        registry.register_path(name, path)
    return registry


def build_controller(
    names: Sequence[str], setting: Setting, options: Mapping[str, Mapping[str, Any]] | None = None
) -> DraftController:
    """The controllers of the list around one another, the outermost first: `("roofline", "dcut", "ucb")`.

    `options` are their parameters, by name. Raises UnknownNameError for a name that is not registered, ValueError for
    an impossible order and for parameters that a controller does not have or take.
    """
    registry = controller_registry()
    controller: DraftController | None = None
    for name in reversed(names):
        try:
            controller = registry.load(name).for_engine(setting, controller, **(options or {}).get(name, {}))
        except TypeError as error:
            raise ValueError(f"controller {name}: {error}") from error
    if controller is None:
        raise ValueError("at least one controller is needed; `fixed` uses the first drafter always")
    return controller
