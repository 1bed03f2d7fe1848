"""Next-token chances from an adjacency table and a prior, the longer and the newer context first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.speculation.adjacency_table import NEGLIGIBLE, AdjacencyTable
from service.speculation.drafter import DraftRequest
from service.speculation.prior import PRIOR_NAME, Entry, Prior, context_key, load_prior


@dataclass
class TableGuesses:
    """Blends what is known behind a pair of tokens and behind the last one alone, learnt or sampled beforehand.

    As in prediction by partial matching each source spreads its trust over its tokens and leaves the rest to the
    next one: learnt pairs, the prior's pairs, learnt singles, the prior's singles. A source that does not know the
    context leaves everything. The chances of one context add up to at most 1.

    Parameters: `table` that learns; `prior`, None without one; the trusts, 0 to 1, fitted by maximum likelihood to
    greedy answers of a small model over fourteen kinds of requests; `remembered` prior entries kept decoded.
    """

    table: AdjacencyTable
    prior: Prior | None = None
    pair_trust: float = 0.62
    prior_pair_trust: float = 0.35
    single_trust: float = 0.4
    prior_single_trust: float = 0.4
    _decoded: dict[int, Entry | None] = field(default_factory=dict, repr=False)

    @classmethod
    def for_request(cls, request: DraftRequest, prior: str | None) -> TableGuesses:
        """The tenant's table, shared by all drafters that learn one, and the prior in the file `prior`.

        `prior` None takes the one in the model's folder, if there is one; "none" takes none. Raises OSError when the
        file cannot be read and ValueError when it holds no prior.
        """
        table = request.memory.get(request.tenant, "adjacency", AdjacencyTable)
        path = None if prior is None or prior == "none" else Path(prior)
        if prior is None and request.model is not None and (Path(request.model) / PRIOR_NAME).is_file():
            path = Path(request.model) / PRIOR_NAME
        return cls(table, None if path is None else load_prior(path))

    def after(self, before: int | None, token: int, least: float = 0.0) -> Mapping[int, float]:
        """Chances of the tokens behind `token`, which stands behind `before`, in no order. Does not mutate.

        Chances far below `least` may be left out, which saves time.
        """
        chances: dict[int, float] = {}
        rest = 1.0
        negligible = least / 4
        for entry, trust in self._sources(before, token):
            if entry is None:
                continue
            share = rest * trust
            rest -= share
            for guess, chance in zip(entry[0], entry[1], strict=True):
                part = share * chance
                if part < negligible:
                    break
                chances[guess] = chances[guess] + part if guess in chances else part
            if rest < negligible:
                break
        return chances

    def _sources(self, before: int | None, token: int) -> tuple[tuple[Entry | None, float], ...]:
        pair = None if before is None else self.table.pair(before, token)
        single = self.table.single(token)
        if self.prior is None:
            return (pair, self.pair_trust), (single, self.single_trust)
        return (
            (pair, self.pair_trust),
            (None if before is None else self._prior(context_key(token, before)), self.prior_pair_trust),
            (single, self.single_trust),
            (self._prior(token), self.prior_single_trust),
        )

    def _prior(self, key: int) -> Entry | None:
        try:
            return self._decoded[key]
        except KeyError:
            assert self.prior is not None
            found = self.prior.get(key)
            if found is not None:
                kept = len([None for chance in found[1] if chance >= NEGLIGIBLE]) or 1
                found = found[0][:kept], found[1][:kept]
            self._decoded[key] = found
            return found
