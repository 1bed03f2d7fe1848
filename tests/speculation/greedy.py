"""A target model's greedy decoding, plain and with a drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from service.speculation.drafter import Drafter
from service.speculation.models.loading import load_model
from tests.speculation.trees import accepted_path


@cache
def continuation(folder: str, prompt: tuple[int, ...], length: int) -> tuple[int, ...]:
    """Plain greedy decoding without a cache: every token from a pass over the whole text."""
    text = list(prompt)
    for _ in range(length):
        text.append(best_tokens(folder, text)[-1])
    return tuple(text[len(prompt) :])


def best_tokens(folder: str, text: Sequence[int]) -> list[int]:
    """The target's best token behind each position of the text."""
    import torch

    with torch.inference_mode():
        best: list[int] = load_model(folder)(torch.tensor([list(text)])).logits[0].argmax(-1).tolist()
    return best


@dataclass
class Run:
    """Counts of one decoded text, and of draft tokens accepted and proposed in each step."""

    output: list[int]
    steps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return sum(accepted for accepted, _ in self.steps)

    @property
    def proposed(self) -> int:
        return sum(proposed for _, proposed in self.steps)


def decode(target: str, drafter: Drafter, prompt: Sequence[int], length: int, budget: int) -> Run:
    """Greedy decoding of at least `length` tokens by a drafter of chains, each verified in one pass."""
    run = Run([])
    drafter.observe(prompt)
    while len(run.output) < length:
        tree = drafter.propose(budget)
        text = [*prompt, *run.output]
        targets = best_tokens(target, [*text, *tree.tokens])[len(text) - 1 :]
        path = accepted_path(tree, targets)
        emitted = [*(tree.tokens[node] for node in path), targets[len(path)]]
        run.steps.append((len(path), len(tree)))
        run.output += emitted
        drafter.observe(emitted)
    return run
