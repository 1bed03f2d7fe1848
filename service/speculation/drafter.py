"""What a drafter is, and the registry of drafters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from service.registry import Registry
from service.speculation.memory import DraftMemory
from service.speculation.tree import DraftTree


class Tokenizer(Protocol):
    """What drafters need of the model's tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Token ids without special tokens."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens, special tokens included."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a sampled request draws: temperature (> 0), and the seed (62 bits) of its noise (`noise.gumbel`)."""

    temperature: float
    seed: int


@dataclass(frozen=True)
class DraftRequest:
    """What a drafter is told about its request. `tools` are OpenAI tool objects, empty without tools.

    `tenant` None means that nothing may be shared with other requests; `memory` heeds that. `model` is the folder of
    the target's weights, where there is one; `sampling` is None for greedy requests.
    """

    tenant: str | None = None
    model: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    sampling: Sampling | None = None
    tokenizer: Tokenizer | None = None
    memory: DraftMemory = field(default_factory=DraftMemory)


@dataclass(frozen=True, slots=True)
class VerifiedRows:
    """What the target said behind each row of one verify pass of one request, the root first.

    `tokens[i]` is the token of row i and `parents[i]` the row of its parent, -1 for the root; `best[i]` are the
    target's most probable next tokens in falling order, `scores[i]` their probabilities. `accepted` are the rows on
    the committed path, the root first.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    best: Sequence[Sequence[int]]
    scores: Sequence[Sequence[float]]
    accepted: Sequence[int]


class Drafter(ABC):
    """Proposes draft tokens for one request. One instance serves one request and is dropped with it.

    All methods run between two forward passes of the engine, so they must be quick and must not block.
    """

    learns_from: ClassVar[int] = 0
    """How many of the target's best tokens behind each row `learn` wants; 0: `learn` is not called."""

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """The drafter of one request. Override it to use what is known of the request, or shared memory."""
        del request
        return cls(**options)

    @classmethod
    def check(cls, request: DraftRequest, **options: Any) -> None:
        """Raise, at the engine's start, for options that cannot work, such as a draft model of another vocabulary.

        It builds a drafter and drops it, so that what all requests share is loaded before the first one; it may
        block for seconds. Raises ConfigError, ValueError, or TypeError for an unknown option.
        """
        cls.for_request(request, **options)

    @abstractmethod
    def observe(self, tokens: Sequence[int]) -> None:
        """Append committed tokens, the prompt first; called before each `propose`. Mutates the drafter."""

    def answer_begins(self) -> None:  # noqa: B027  (most drafters treat prompt and answer alike)
        """What was observed so far is the prompt, what comes next is the answer. Mutates the drafter."""

    @abstractmethod
    def propose(self, budget: int) -> DraftTree:
        """At most `budget` draft tokens (>= 1) behind the committed text; an empty tree proposes nothing."""

    @classmethod
    def propose_all(cls, drafters: Sequence[Self], budgets: Sequence[int]) -> list[DraftTree]:
        """Proposals of several requests at once, for drafters that run a model; one by one, unless overridden."""
        return [drafter.propose(budget) for drafter, budget in zip(drafters, budgets, strict=True)]

    def learn(self, rows: VerifiedRows) -> None:  # noqa: B027  (most drafters learn from the text alone)
        """Look at the target's answers of the last pass, before `observe` gets its tokens. Mutates the drafter."""


class NoDrafter(Drafter):
    """Proposes nothing: the baseline."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Ignore the tokens."""

    def propose(self, budget: int) -> DraftTree:
        """Always the empty tree."""
        del budget
        return DraftTree()


DRAFTERS = {
    "adjacency": "service.speculation.drafters.adjacency:Adjacency",
    "goose": "service.speculation.drafters.goose:Goose",
    "graft": "service.speculation.drafters.graft:Graft",
    "none": "service.speculation.drafter:NoDrafter",
    "draft_model": "service.speculation.drafters.draft_model:DraftModel",
    "layer_skip": "service.speculation.drafters.layer_skip:LayerSkip",
    "pard": "service.speculation.drafters.pard:Pard",
    "prompt_lookup": "service.speculation.drafters.prompt_lookup:PromptLookup",
    "agent_blocks": "service.speculation.drafters.agent_blocks:AgentBlocks",
    "toolspec": "service.speculation.drafters.toolspec:ToolSpec",
    "ngram_corpus": "service.speculation.drafters.ngram_corpus:NgramCorpus",
    "suffix": "service.speculation.drafters.suffix:Suffix",
}
"""Built-in drafters: name and class, imported when the drafter is used."""


def drafter_registry() -> Registry[type[Drafter]]:
    """The classes of drafters by name, third parties' included; building it imports no drafter."""
    registry: Registry[type[Drafter]] = Registry("drafters")
    for name, path in DRAFTERS.items():
        registry.register_path(name, path)
    return registry
