"""Graft: another drafter's tree, its weak nodes given to a tree of what the target said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.best_first import Guess, grow_bounded, ranked
from service.speculation.drafter import Drafter, DraftRequest, VerifiedRows, drafter_registry
from service.speculation.table_guesses import TableGuesses
from service.speculation.tree import ROOT, DraftTree, TreeBuilder

FLOOR = 0.001
"""Nodes of the table that are accepted less often than this are not worth the time to find them."""


@dataclass
class Graft(Drafter):
    """Prunes the inner drafter's unlikely nodes and grows a root-centred tree from the adjacency table in their place.

    Both trees share the root and every node that both propose, so no token is drafted twice behind one parent and a
    step verifies as many rows as before. Nodes that the table cannot fill go back to the inner tree. Use it around
    drafters that run a model and know their chances; around copies `goose` does the same with better odds. An inner
    tree without confidences is not pruned. Source: Graft (methods note 4.8); stages of its pruning became one
    threshold. What the table learns stays with the tenant.

    Parameters: `inner`, the drafter whose trees are grafted; `guesses`, the table; `threshold`, the least chance of
    an inner node to be kept, 0 to 1 (default 0.15).
    """

    learns_from = 8

    inner: Drafter
    guesses: TableGuesses = field(default_factory=lambda: TableGuesses(AdjacencyTable()))
    threshold: float = 0.15
    _before: int | None = field(default=None, init=False, repr=False)
    _last: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"graft needs 0 <= threshold <= 1, got {self.threshold}")

    @classmethod
    def for_request(
        cls,
        request: DraftRequest,
        *,
        inner: str = "suffix",
        inner_options: Mapping[str, Any] | None = None,
        prior: str | None = None,
        **options: Any,
    ) -> Self:
        """A graft on the drafter named `inner`, built with `inner_options`, over the tenant's table and the `prior`.

        `prior` is as in `goose`.

        Raises UnknownNameError for an unknown inner drafter, what that one raises, and OSError or ValueError for a
        prior that cannot be used.
        """
        drafter = drafter_registry().load(inner).for_request(request, **(inner_options or {}))
        return cls(drafter, TableGuesses.for_request(request, prior), **options)

    def observe(self, tokens: Sequence[int]) -> None:
        """Pass the tokens on and remember the last two."""
        self.inner.observe(tokens)
        for token in tokens[-2:]:
            self._before, self._last = self._last, token

    def propose(self, budget: int) -> DraftTree:
        """Exactly `budget` nodes where inner drafter and table have as many between them."""
        return self._grafted(self.inner.propose(budget), budget)

    @classmethod
    def propose_all(cls, drafters: Sequence[Self], budgets: Sequence[int]) -> list[DraftTree]:
        """Let the inner drafters propose together, which those that run a model do in one pass."""
        inner = [drafter.inner for drafter in drafters]
        trees = type(inner[0]).propose_all(inner, budgets) if inner else []
        return [d._grafted(tree, budget) for d, tree, budget in zip(drafters, trees, budgets, strict=True)]

    def _grafted(self, tree: DraftTree, budget: int) -> DraftTree:
        builder = TreeBuilder(budget)
        if self._last is None:
            return tree
        chances = tree.chances() or (1.0,) * len(tree)
        order = sorted(range(len(tree)), key=lambda node: (-chances[node], node))
        kept = [node for node in order if chances[node] >= self.threshold]
        place = {ROOT: ROOT}
        _plant(builder, tree, kept, place)
        grow_bounded(builder, (self._before, self._last), self._after, lambda at, token: (at[1], token), floor=FLOOR)
        _plant(builder, tree, order[len(kept) :], place)
        return builder.build()

    def _after(self, at: tuple[int | None, int], least: float) -> list[Guess]:
        return ranked(self.guesses.after(*at, least), "graft")

    def learn(self, rows: VerifiedRows) -> None:
        """Overwrite what the table knows behind the verified tokens; the inner drafter learns too."""
        self.guesses.table.learn(rows, self._before)
        if self.inner.learns_from:
            self.inner.learn(rows)


def _plant(builder: TreeBuilder, tree: DraftTree, nodes: Sequence[int], place: dict[int, int]) -> None:
    """Copy nodes of the tree, parents first, while there is room; `place` maps them to the builder's. Mutates both."""
    for node in nodes:
        parent = place.get(tree.parents[node])
        if parent is None:
            break
        confidence = 1.0 if tree.confidences is None else tree.confidences[node]
        added = builder.add(parent, tree.tokens[node], confidence, tree.sources[node] if tree.sources else "inner")
        if added is None:
            break
        place[node] = added
