"""What a drafter is, and the registry of drafters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from service.registry import Registry
from service.speculation.tree import DraftTree


class Drafter(ABC):
    """Proposes draft tokens for one request. One instance serves one request and is dropped with it.

    All methods run between two forward passes of the engine, so they must be quick and must not block.
    """

    @abstractmethod
    def observe(self, tokens: Sequence[int]) -> None:
        """Append committed tokens, the prompt first; called before each `propose`. Mutates the drafter."""

    @abstractmethod
    def propose(self, budget: int) -> DraftTree:
        """At most `budget` draft tokens (>= 1) behind the committed text; an empty tree proposes nothing."""


class NoDrafter(Drafter):
    """Proposes nothing: the baseline."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Ignore the tokens."""

    def propose(self, budget: int) -> DraftTree:
        """Always the empty tree."""
        del budget
        return DraftTree()


def drafter_registry() -> Registry[Drafter]:
    """The drafters by name, third parties' included; building it imports no drafter."""
    registry: Registry[Drafter] = Registry("drafters")

    @registry.register("none")
    def none(**options: object) -> Drafter:
        del options
        return NoDrafter()

    @registry.register("prompt_lookup")
    def prompt_lookup(**options: int) -> Drafter:
        from service.speculation.drafters.prompt_lookup import PromptLookup

        return PromptLookup(**options)

    return registry
