"""A tokenizer of words and runs of signs, and a replay of a text against a drafter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from service.speculation.drafter import Drafter
from service.speculation.tree import ROOT, DraftTree

PIECES = re.compile(r"<\|\w+\|>| ?[a-z]+| ?\d| ?[^\sa-z\d]+|\s+", re.IGNORECASE)


@dataclass
class Pieces:
    """Tokens are matches of PIECES, numbered as they come; like BPE it merges signs over the joints of JSON."""

    known: dict[str, int] = field(default_factory=dict)

    def encode(self, text: str) -> list[int]:
        return [self.known.setdefault(piece, len(self.known)) for piece in PIECES.findall(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        texts = list(self.known)
        return "".join(texts[token] for token in tokens)


@dataclass
class Replay:
    """What a drafter did on a text: verify steps, proposed and accepted drafts by source."""

    steps: int = 0
    proposed: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    @property
    def drafted(self) -> int:
        """Accepted tokens that the schemas gave."""
        return self.accepted["scaffold"] + self.accepted["choice"]


def path(tree: DraftTree, tokens: Sequence[int]) -> list[int]:
    """The nodes that agree with the tokens."""
    nodes, at = [], ROOT
    edges = {edge: node for node, edge in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    for token in tokens:
        if (at, token) not in edges:
            break
        at = edges[at, token]
        nodes.append(at)
    return nodes


def replay(drafter: Drafter, prompt: Sequence[int], output: Sequence[int], budget: int = 16) -> Replay:
    """Decode `output` with the drafter's help."""
    found = Replay()
    drafter.observe(prompt)
    done = 0
    while done < len(output):
        tree = drafter.propose(budget)
        assert len(tree) <= budget
        nodes = path(tree, output[done:])
        sources = tree.sources or ()
        found.steps += 1
        found.proposed.update(sources)
        found.accepted.update(sources[node] for node in nodes)
        drafter.observe(output[done : done + len(nodes) + 1])
        done += len(nodes) + 1
    return found
