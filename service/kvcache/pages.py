"""Pages of one request and layer: summaries as they fill, and the positions that a step reads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from service.kvcache.selection import PageSelector


class LayerPages:
    """What a selector knows of one layer of one request. Summaries grow with the text; queries are remembered."""

    def __init__(self, selector: PageSelector, page: int) -> None:
        self.selector = selector
        self.page = page
        self._summaries: torch.Tensor | None = None
        self._known = 0
        self._queries: list[torch.Tensor] = []

    def fill(self, length: int, keys_of: Callable[[int, int], torch.Tensor]) -> None:
        """Summarize pages that became full; `keys_of` gives keys [n, kv_heads, dim] of positions. Mutates."""
        full = length // self.page
        if full > self._known:
            keys = keys_of(self._known * self.page, full * self.page)
            fresh = self.selector.summarize(keys.view(full - self._known, self.page, *keys.shape[1:]))
            self._summaries = fresh if self._summaries is None else torch.cat((self._summaries, fresh))
            self._known = full

    def choose(self, query: torch.Tensor, scale: float, budget: int, length: int) -> torch.Tensor:
        """Positions to read, int64 [kv_heads, n]: the best full pages, and what follows the last full one.

        The first page and the newest full one are always read. `budget` are tokens (at least three pages are read);
        `query` is [heads, dim]. Mutates the remembered queries. Raises ValueError while no page is full.
        """
        if self._summaries is None:
            raise ValueError("no page is full: fill some before choosing")
        wanted = max(3, (budget - length % self.page) // self.page)
        earlier = torch.stack(self._queries) if self._queries else query.new_zeros(0, *query.shape)
        scores = self.selector.score(query, self._summaries, scale, earlier)
        self.remember(query)
        scores[:, [0, -1]] = float("inf")
        pages = scores.topk(min(wanted, self._known), 1).indices.sort(1).values
        tokens = (pages[..., None] * self.page + torch.arange(self.page)).flatten(1)
        tail = torch.arange(self._known * self.page, length).expand(pages.shape[0], -1)
        return torch.cat((tokens, tail), 1)

    def remember(self, query: torch.Tensor) -> None:
        """A query that chose nothing. Mutates."""
        if self.selector.history:
            self._queries = [*self._queries, query.clone()][-self.selector.history :]
