"""ASD, approximate speculative decoding: keep a few draft tokens that the target nearly chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from service.speculation.accept_rule import AcceptRule, Exempt, TargetRows, children_of, exact_child
from service.speculation.tree import ROOT, DraftTree


@dataclass
class Asd(AcceptRule):
    """Commits up to `per_step` mismatches a step whose regret is at most `gate`, within `budget` for the request.

    LOSSY: the text differs from plain decoding, and may get longer; measure that with `specserve bench inflation`
    before use. The regret of a mismatch is the target's best logit minus the draft token's. A mismatch is taken only
    where no draft token is right and where the target's best token behind it was drafted too, so that it buys at least
    two tokens. What ends a text or a thought is never passed over and never taken by exception. Source: ASD (methods
    note 4.9); its defaults are `gate` 0.25, `budget` 8 and `per_step` 2 for a 14B model, and the scale of regret
    depends on the model. With `budget` 0 it is strict.
    """

    lossless: ClassVar[bool] = False

    gate: float = 0.25
    budget: float = 8.0
    per_step: int = 2
    exempt: Exempt = field(default_factory=Exempt)
    spent: float = field(default=0.0, init=False)
    _exceptions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.gate < 0 or self.budget < 0 or self.per_step < 0:
            raise ValueError(f"asd needs gate, budget and per_step >= 0: {self.gate}, {self.budget}, {self.per_step}")

    @classmethod
    def for_request(cls, exempt: Exempt, **options: Any) -> Self:
        """A new account for one request."""
        return cls(exempt=exempt, **options)

    @property
    def exceptions(self) -> int:
        """Mismatches committed so far."""
        return self._exceptions

    def walk(self, tree: DraftTree, rows: TargetRows) -> tuple[list[int], list[int]]:
        """Follow the best tokens; where none was drafted, take the cheapest mismatch that pays."""
        children = children_of(tree)
        path: list[int] = []
        taken, node = 0, ROOT
        while True:
            best = rows.best(node + 1)
            child = exact_child(tree, children[node + 1], best)
            if child is None and taken < self.per_step:
                child = self._mismatch(tree, rows, children, node, best)
                taken += child is not None
            if child is None:
                return path, [*(tree.tokens[step] for step in path), best]
            path.append(child)
            node = child

    def _mismatch(
        self, tree: DraftTree, rows: TargetRows, children: Sequence[Sequence[int]], node: int, best: int
    ) -> int | None:
        """The mismatch below `node` to commit, entered in the account; None when none is worth it."""
        if best in self.exempt.tokens:
            return None
        fit = []
        for child in children[node + 1]:
            regret = rows.regret(node + 1, tree.tokens[child])
            affordable = regret <= self.gate and self.spent + regret <= self.budget
            goes_on = exact_child(tree, children[child + 1], rows.best(child + 1)) is not None
            if affordable and goes_on and tree.tokens[child] not in self.exempt.tokens:
                fit.append((regret, child))
        if not fit:
            return None
        regret, child = min(fit)
        self.spent += regret
        self._exceptions += 1
        return child
