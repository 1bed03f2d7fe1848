"""What an eviction policy is, and the registry of policies. Imports no torch at run time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from service.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CacheView:
    """The tokens of one request that are held when its policy is asked, and what was seen of them.

    `positions` are the true positions in the text, int64 [held], ascending; the last one is `length` - 1. `attention`
    are float32 probabilities [layers, queries, held], of the last queries in time, averaged over heads; a query gives
    0 to tokens behind it. `mass` is float32 [held]: the probability that each token got
    from all queries so far, averaged over layers and heads. `keys` is float [layers, held, kv_heads, dim], with the
    positions rotated in. `onset` is float32 [held]: of the attention of the token's own query and the next ones the
    share that stays at the token or behind it, mean over layers and heads; `breaks` is bool [held]: tokens that end a
    sentence, a clause, a line or a part of JSON. What the policy did not ask for is None. Nobody may change them.
    """

    positions: Tensor
    length: int
    attention: Tensor | None = None
    mass: Tensor | None = None
    keys: Tensor | None = None
    onset: Tensor | None = None
    breaks: Tensor | None = None

    @property
    def held(self) -> int:
        """Number of held tokens."""
        return int(self.positions.numel())


class TokenEvictionPolicy(ABC):
    """Chooses which tokens of one request stay, the same ones for all layers and heads.

    One instance serves all requests: it keeps no state. Methods run between two forward passes, so they must be
    quick; they change nothing. Keys keep the positions that they were computed for.
    """

    window: ClassVar[int] = 0
    """Last queries whose attention the policy wants; 0: none."""
    every_query: ClassVar[bool] = False
    """Whether it wants `mass`, for which prompts are read in full even where a prefix is cached."""
    lookahead: ClassVar[int] = 0
    """Tokens that stand in for the answer behind the prompt; after a prefill their queries are the window."""
    wants_keys: ClassVar[bool] = False
    """Whether it wants `keys`."""
    onset: ClassVar[int] = 0
    """Queries from each token on that `onset` is about; 0: none. Only with `every_query`."""
    wants_breaks: ClassVar[bool] = False
    """Whether it wants `breaks`."""

    @abstractmethod
    def keep(self, view: CacheView, budget: int) -> Tensor:
        """Indices into `view.positions` of the tokens that stay, int64, ascending, at most `budget` of them.

        With `budget` >= `view.held` all stay.
        """

    @abstractmethod
    def least_budget(self) -> int:
        """The smallest budget that the settings leave room for, tokens."""

    def after_prefill(self, view: CacheView, budget: int) -> Tensor:
        """The choice when the prompt is read; as `keep`, unless overridden."""
        return self.keep(view, budget)

    def in_decode(self, view: CacheView, budget: int) -> Tensor:
        """The choice while the answer grows; as `keep`, unless overridden."""
        return self.keep(view, budget)


EVICTORS = {
    "none": "service.kvcache.evictors.none:KeepAll",
    "streaming": "service.kvcache.evictors.streaming:Streaming",
    "snapkv": "service.kvcache.evictors.snapkv:SnapKv",
    "h2o": "service.kvcache.evictors.h2o:HeavyHitters",
    "dapq": "service.kvcache.evictors.dapq:DapQ",
    "dynsplit": "service.kvcache.evictors.dynsplit:DynSplit",
    "fastkv": "service.kvcache.evictors.fastkv:FastKv",
}
"""Built-in policies: name and class, imported when the policy is used."""


def eviction_registry() -> Registry[type[TokenEvictionPolicy]]:
    """The classes of policies by name, third parties' included; building it imports no torch."""
    registry: Registry[type[TokenEvictionPolicy]] = Registry("kv_eviction")
    for name, path in EVICTORS.items():
        registry.register_path(name, path)
    return registry
