"""What drafters' confidences were worth, by the source that claimed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from service.speculation.cost import Floats
from service.speculation.tree import ROOT, DraftTree

_MOST_SOURCES = 64


@dataclass
class _Bins:
    seen: Floats
    hits: Floats
    values: Floats


@dataclass
class Calibration:
    """Maps a claimed chance to the share that was accepted, in bins, rising, one map a source.

    A node counts when its parent was accepted: then it was put to the test. Each bin starts from the claim itself,
    times what the source's claims were worth on the whole, as if `trust` nodes had shown it, so that few observations
    change little. Sources beyond 64 share one map.

    Parameters: `bins` (default 10); `trust` (default 10 nodes); `memory` nodes a bin remembers (default 1000).
    """

    bins: int = 10
    trust: float = 10.0
    memory: float = 1000.0
    _sources: dict[str, _Bins] = field(default_factory=dict, init=False, repr=False)

    @property
    def centres(self) -> Floats:
        """The claims that the bins stand for."""
        return (np.arange(self.bins) + 0.5) / self.bins

    def observe(self, tree: DraftTree, path: Sequence[int]) -> None:
        """Learn from a verified tree and its accepted nodes. Mutates."""
        if tree.confidences is None:
            return
        accepted = {ROOT, *path}
        touched = set()
        for node, (parent, claim) in enumerate(zip(tree.parents, tree.confidences, strict=True)):
            if parent in accepted:
                bins = self._of(_source(tree, node))
                place = min(int(claim * self.bins), self.bins - 1)
                keep = min(1.0, self.memory / (bins.seen[place] + 1))
                bins.seen[place] = (bins.seen[place] + 1) * keep
                bins.hits[place] = (bins.hits[place] + (node in accepted)) * keep
                touched.add(_source(tree, node))
        for source in touched:
            bins = self._of(source)
            claimed = float(bins.seen @ self.centres)
            boast = (float(bins.hits.sum()) + self.trust / 2) / (claimed + self.trust / 2)
            prior = np.minimum(1.0, self.centres * boast)
            raw = (bins.hits + self.trust * prior) / (bins.seen + self.trust)
            bins.values = rising(raw, bins.seen + self.trust)

    def chances(self, tree: DraftTree) -> Floats | None:
        """The calibrated chance that each node is reached and accepted; None when the tree claims nothing.

        They never rise along a path, so that the best of them are always whole from the root on.
        """
        if tree.confidences is None:
            return None
        claims = np.array(tree.confidences, dtype=float)
        own = claims.copy()
        for source in set(tree.sources or ("",)):
            bins = self._sources.get(source) or self._sources.get("")
            if bins is not None:
                mine = np.array([_source(tree, node) == source for node in range(len(tree))])
                # Between the bins the map is a line; a claim keeps its rank within its bin.
                own[mine] = np.interp(claims[mine], self.centres, bins.values)
        own = np.clip(own, 0.0, 1.0)
        for node, parent in enumerate(tree.parents):
            if parent != ROOT:
                own[node] *= own[parent]
        return own

    def table(self) -> dict[str, list[float]]:
        """For people: what claims of .05, .15, ... of each source are worth."""
        return {source or "-": [round(float(v), 3) for v in bins.values] for source, bins in self._sources.items()}

    def _of(self, source: str) -> _Bins:
        if source not in self._sources and len(self._sources) >= _MOST_SOURCES:
            source = ""
        if source not in self._sources:
            self._sources[source] = _Bins(np.zeros(self.bins), np.zeros(self.bins), self.centres)
        return self._sources[source]


def rising(values: Floats, weights: Floats) -> Floats:
    """The closest non-decreasing values (isotonic regression, pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v1, w1, n1), (v2, w2, n2) = blocks[-2:]
            blocks[-2:] = [((v1 * w1 + v2 * w2) / (w1 + w2), w1 + w2, n1 + n2)]
    return np.repeat([block[0] for block in blocks], [block[2] for block in blocks])


def _source(tree: DraftTree, node: int) -> str:
    return "" if tree.sources is None else tree.sources[node]
