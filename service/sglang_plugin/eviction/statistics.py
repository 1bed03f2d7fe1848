"""What is seen of one request's attention, as its policy asks. Imports no sglang."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from service.kvcache.eviction import TokenEvictionPolicy


def probabilities(query: torch.Tensor, keys: torch.Tensor, scale: float) -> torch.Tensor:
    """Softmax of the last n tokens' queries over all keys up to themselves, float32 [heads, n, length].

    `query` is [n, heads, dim] and `keys` [length, kv_heads, dim]; query i stands at length - n + i.
    """
    n, heads, dim = query.shape
    length, kv_heads, _ = keys.shape
    grouped = query.float().view(n, kv_heads, heads // kv_heads, dim).permute(1, 2, 0, 3).reshape(kv_heads, -1, dim)
    scores = (grouped @ keys.float().permute(1, 2, 0) * scale).view(heads, n, length)
    if n > 1:
        hidden = torch.ones(n, length, dtype=torch.bool).triu(length - n + 1)
        scores.masked_fill_(hidden, float("-inf"))
    return scores.softmax(-1)


class Statistics:
    """Attention of one request over its held tokens, filled layer by layer during forward passes.

    `goal` is the length of the text that the prefill reads. Columns are held tokens in order; `forget_all_but` keeps
    them in line with what is held.
    """

    def __init__(self, policy: TokenEvictionPolicy, layers: int, goal: int) -> None:
        self.policy = policy
        self.layers = layers
        self.goal = goal
        self.mass = torch.zeros(0)
        self.onset = torch.zeros(0)
        self._tails: list[list[torch.Tensor]] = [[] for _ in range(layers)]
        self._prompt: list[torch.Tensor] = []
        self._steps: list[torch.Tensor] = []

    def wants_chunk(self, end: int) -> bool:
        """Whether a piece of the prompt that ends at `end` is to be seen."""
        own = self.policy.window and not self.policy.lookahead and end > self.goal - self.policy.window
        return self.policy.every_query or bool(own)

    def see_chunk(self, layer: int, query: torch.Tensor, keys: torch.Tensor, scale: float) -> None:
        """A piece of the prompt: queries [n, heads, dim] of its tokens, all keys up to its end. Mutates."""
        end, n = keys.shape[0], query.shape[0]
        if self.policy.every_query:
            self._add_mass(probabilities(query, keys, scale))
        window = self.policy.window
        if window and not self.policy.lookahead and end > self.goal - window:
            self._tails[layer].append(query[max(0, self.goal - window - (end - n)) :].clone())
            if end == self.goal:
                tail = torch.cat(self._tails[layer])
                self._tails[layer] = []
                self._see_window(layer, probabilities(tail, keys, scale))

    def see_ahead(self, layer: int, query: torch.Tensor, keys: torch.Tensor, scale: float) -> None:
        """Queries of stand-ins behind the prompt, and keys of prompt and stand-ins. Mutates."""
        self._steps = []
        self._see_window(layer, probabilities(query, keys, scale)[:, :, : keys.shape[0] - query.shape[0]])

    def see_step(self, layer: int, query: torch.Tensor, keys: torch.Tensor, scale: float) -> None:
        """One decode step: the query [1, heads, dim] of the newest token, keys up to itself. Mutates."""
        seen = probabilities(query, keys, scale)
        if self.policy.every_query:
            self._add_mass(seen)
        if self.policy.window:
            if layer == 0:
                self._steps.append(torch.zeros(self.layers, keys.shape[0]))
                del self._steps[: -self.policy.window]
            self._steps[-1][layer] = seen.mean(0)[0]

    def _add_mass(self, seen: torch.Tensor) -> None:
        self.mass = pad(self.mass, (0, max(0, seen.shape[-1] - len(self.mass))))
        mean = seen.mean(0)
        self.mass[: seen.shape[-1]] += mean.sum(0) / self.layers
        if self.policy.onset:
            self._add_onset(mean)

    def _add_onset(self, mean: torch.Tensor) -> None:
        """Queries [n, length] of the last n columns: what each keeps at or behind each of the columns before it."""
        n, length = mean.shape
        self.onset = pad(self.onset, (0, max(0, length - len(self.onset))))
        own = torch.arange(length - n, length)[:, None]
        columns = own - torch.arange(self.policy.onset)
        # What lies before a column is the sum up to the one before it.
        before = pad(mean.cumsum(1), (1, 0)).gather(1, columns.clamp(min=0))
        share = ((1 - before) / (self.layers * self.policy.onset)).masked_fill(columns < 0, 0)
        self.onset.index_add_(0, columns.clamp(min=0).flatten(), share.flatten())

    def _see_window(self, layer: int, seen: torch.Tensor) -> None:
        if layer == 0:
            self._prompt = []
        self._prompt.append(seen.mean(0))

    def attention(self, held: int) -> torch.Tensor | None:
        """[layers, queries, held] of the newest window; None when the policy wants none or nothing was seen."""
        if self._steps:
            return torch.stack([pad(step, (0, held - step.shape[1])) for step in self._steps], 1)
        return torch.stack(self._prompt) if self._prompt else None

    def mass_of(self, held: int) -> torch.Tensor | None:
        """[held], or None when the policy does not want it."""
        return pad(self.mass, (0, held - len(self.mass))) if self.policy.every_query else None

    def onset_of(self, held: int) -> torch.Tensor | None:
        """[held], or None when the policy does not want it. The newest tokens' next queries are still to come."""
        return pad(self.onset, (0, held - len(self.onset))) if self.policy.onset else None

    def forget_all_but(self, indices: torch.Tensor, held: int) -> None:
        """Only these of the `held` columns remain; the prompt's window and the steps so far are done with. Mutates."""
        if self.policy.every_query:
            self.mass = pad(self.mass, (0, held - len(self.mass)))[indices]
        if self.policy.onset:
            self.onset = pad(self.onset, (0, held - len(self.onset)))[indices]
        self._prompt, self._steps = [], []
