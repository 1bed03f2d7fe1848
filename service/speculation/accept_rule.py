"""What an accept rule is: it decides which draft tokens of a greedy request are committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from service.registry import Registry
from service.speculation.tree import DraftTree


class TargetRows(Protocol):
    """The target's logits behind root and nodes of one tree; row 0 is the root's, row 1 + i node i's."""

    def best(self, row: int) -> int:
        """The most probable token behind the row."""

    def regret(self, row: int, token: int) -> float:
        """Logit of the best token minus that of `token`, >= 0."""


@dataclass(frozen=True)
class Exempt:
    """Tokens at which a lossy rule must be strict, such as those that end a text or a thought."""

    tokens: frozenset[int] = frozenset()


class AcceptRule(ABC):
    """Commits draft tokens of one greedy request. One instance serves one request and may keep an account.

    Sampled requests need no rule: a draft token is committed when the target draws it itself, by Gumbel noise that
    depends on seed, position and token only. That is exact at any temperature, top-p and top-k for any tree, gives the
    same tokens whatever was drafted (Daliri et al., drafter-invariant speculative decoding), and for the point masses
    that our drafters propose accepts as often as rejection sampling can.
    """

    lossless: ClassVar[bool]
    """Whether the text is that of plain decoding."""

    @classmethod
    def for_request(cls, exempt: Exempt, **options: Any) -> Self:
        """The rule of one request. Raises TypeError or ValueError for options that it does not have."""
        del exempt
        return cls(**options)

    @abstractmethod
    def walk(self, tree: DraftTree, rows: TargetRows) -> tuple[list[int], list[int]]:
        """The accepted nodes, one below the other, and the tokens to emit: theirs and the bonus token. Mutates."""

    @property
    def exceptions(self) -> int:
        """Tokens committed so far that plain decoding would not have written."""
        return 0


def children_of(tree: DraftTree) -> list[list[int]]:
    """The children of root and nodes; entry 0 is the root's, entry 1 + i node i's."""
    children: list[list[int]] = [[] for _ in range(len(tree) + 1)]
    for node, parent in enumerate(tree.parents):
        children[parent + 1].append(node)
    return children


def exact_child(tree: DraftTree, below: Sequence[int], token: int) -> int | None:
    """The node among `below` that carries `token`."""
    return next((node for node in below if tree.tokens[node] == token), None)


RULES = {
    "strict": "service.speculation.accept.strict:Strict",
    "asd": "service.speculation.accept.asd:Asd",
}
"""Built-in rules: name and class, imported when the rule is used."""


def accept_registry() -> Registry[type[AcceptRule]]:
    """The classes of accept rules by name, third parties' included; building it imports no rule."""
    registry: Registry[type[AcceptRule]] = Registry("accept_rules")
    for name, path in RULES.items():
        registry.register_path(name, path)
    return registry
