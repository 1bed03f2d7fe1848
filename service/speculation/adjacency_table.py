"""What the target said would follow a token, or a pair of tokens: bounded, and overwritten by the newest."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from service.speculation.drafter import VerifiedRows
from service.speculation.prior import Entry, context_key

NEGLIGIBLE = 0.004
"""Less probable tokens are not kept: they cost time in every proposal and are hardly ever drafted."""


@dataclass
class AdjacencyTable:
    """Best next tokens with their probabilities behind single tokens and pairs, learnt from every verified row.

    Rejected rows teach as well as accepted ones. What was learnt longest ago is forgotten first. Sources: token
    recycling (arXiv:2408.08696) for the single tokens, Goose (methods note 4.7) for the pairs and the bound. An entry
    of eight tokens takes about 0.4 KB. Not thread-safe.

    Parameters: `width` next tokens of an entry; `singles` and `pairs` entries kept at most.
    """

    width: int = 8
    singles: int = 4096
    pairs: int = 8192
    _single: OrderedDict[int, tuple[array[int], array[float]]] = field(default_factory=OrderedDict, repr=False)
    _pair: OrderedDict[int, tuple[array[int], array[float]]] = field(default_factory=OrderedDict, repr=False)

    def __post_init__(self) -> None:
        if min(self.width, self.singles, self.pairs) < 1:
            raise ValueError(f"an adjacency table needs room, got {self.width}, {self.singles}, {self.pairs}")

    def __len__(self) -> int:
        return len(self._single) + len(self._pair)

    def single(self, token: int) -> Entry | None:
        """What followed the token last time."""
        entry = self._single.get(token)
        return None if entry is None else (entry[0].tolist(), entry[1].tolist())

    def pair(self, before: int, token: int) -> Entry | None:
        """What followed the two tokens last time."""
        entry = self._pair.get(context_key(token, before))
        return None if entry is None else (entry[0].tolist(), entry[1].tolist())

    def put(self, before: int | None, token: int, best: Sequence[int], scores: Sequence[float]) -> None:
        """Overwrite what follows `token`, and what follows it behind `before`. Mutates the table."""
        kept = len([None for score in scores[: self.width] if score >= NEGLIGIBLE]) or 1
        entry = array("q", best[:kept]), array("f", scores[:kept])
        self._write(self._single, token, entry, self.singles)
        if before is not None:
            self._write(self._pair, context_key(token, before), entry, self.pairs)

    def learn(self, rows: VerifiedRows, before_root: int | None) -> None:
        """Put all rows of a pass, whose root follows the token `before_root`; the accepted rows last. Mutates."""
        accepted = set(rows.accepted)
        # The text goes on behind the accepted rows, so what they say stands where a token occurs twice.
        for row in [i for i in range(len(rows.tokens)) if i not in accepted] + list(rows.accepted):
            parent = rows.parents[row]
            before = before_root if parent < 0 else rows.tokens[parent]
            self.put(before, rows.tokens[row], rows.best[row], rows.scores[row])

    @staticmethod
    def _write(
        table: OrderedDict[int, tuple[array[int], array[float]]],
        key: int,
        entry: tuple[array[int], array[float]],
        limit: int,
    ) -> None:
        table[key] = entry
        table.move_to_end(key)
        if len(table) > limit:
            table.popitem(last=False)
