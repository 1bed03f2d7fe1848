"""What a page selector is, and the registry of selectors. Imports no torch at run time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from service.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


class PageSelector(ABC):
    """Chooses which pages of a request's KV cache a decode step reads, per layer and KV head. Nothing is freed.

    A page is a run of tokens; its summary is made once, when the page is full, and never changes. One instance
    serves all requests: it keeps no state, and its methods change nothing.
    """

    history: ClassVar[int] = 0
    """Earlier queries of the layer that `score` wants; 0: none."""

    @abstractmethod
    def summarize(self, keys: Tensor) -> Tensor:
        """Summaries of full pages: keys [pages, page, kv_heads, dim] -> [pages, kv_heads, anything].

        Each page's depends on that page alone. Keys have their positions rotated in.
        """

    @abstractmethod
    def summary_size(self, page: int, dim: int) -> int:
        """Numbers in the summary of a page of `page` tokens, for one KV head."""

    @abstractmethod
    def score(self, query: Tensor, summaries: Tensor, scale: float, history: Tensor) -> Tensor:
        """The worth of each page, float [kv_heads, pages]; higher is read.

        `query` is [heads, dim], of which heads // kv_heads share a KV head; `scale` is the factor of the dot product.
        `history` are queries [steps, heads, dim] before this one, the oldest first, at most `history` steps.
        """


SELECTORS = {
    "none": "service.kvcache.selectors.none:ReadAll",
    "quest": "service.kvcache.selectors.quest:Quest",
    "locks": "service.kvcache.selectors.locks:Locks",
    "async_spade": "service.kvcache.selectors.async_spade:AsyncSpade",
}
"""Built-in selectors: name and class, imported when the selector is used."""


def selector_registry() -> Registry[type[PageSelector]]:
    """The classes of selectors by name, third parties' included; building it imports no torch."""
    registry: Registry[type[PageSelector]] = Registry("page_selectors")
    for name, path in SELECTORS.items():
        registry.register_path(name, path)
    return registry
