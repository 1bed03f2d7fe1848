"""Drawing at every node and accepting what was drawn keeps the target's distribution, exactly.

The target is a random table over a tiny vocabulary, so that every joint probability is known. Controls show that the
test would notice greedy targets and a biased acceptance.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch
from scipy.stats import chisquare

from service.sglang_plugin import sampling
from service.speculation.tree import ROOT, DraftTree, follow

VOCABULARY, LENGTH, DRAWS = 4, 3, 20_000
Prefix = tuple[int, ...]
Draw = Callable[[torch.Tensor, int, Sequence[int]], list[int]]


@pytest.fixture(autouse=True)
def seeded_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the plugin's hooks leave SGLang's sampler."""
    monkeypatch.setattr("sglang.srt.layers.sampler.multinomial_with_seed", sampling.draw_seeded)


class Target:
    """Logits behind every prefix."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._logits = {
            prefix: torch.randn(VOCABULARY, generator=generator) * 1.5
            for length in range(2 * LENGTH)
            for prefix in itertools.product(range(VOCABULARY), repeat=length)
        }

    def logits(self, prefix: Prefix) -> torch.Tensor:
        return self._logits[prefix]

    def probability(self, text: Prefix) -> float:
        chances = [self.logits(text[:i]).softmax(-1)[token] for i, token in enumerate(text)]
        return float(torch.stack(chances).double().prod())


def random_tree(generator: random.Random, depth: int) -> DraftTree:
    """Up to eight nodes, none deeper than `depth`."""
    edges: list[tuple[int, int]] = []
    for _ in range(8):
        parents = [ROOT, *(n for n in range(len(edges)) if DraftTree(*_columns(edges)).depths()[n] < depth)]
        edge = (generator.choice(parents), generator.randrange(VOCABULARY))
        if edge not in edges:
            edges.append(edge)
    return DraftTree(*_columns(edges))


def _columns(edges: Sequence[tuple[int, int]]) -> tuple[Prefix, Prefix]:
    return tuple(token for _, token in edges), tuple(parent for parent, _ in edges)


def prefix_of(tree: DraftTree, node: int) -> Prefix:
    return () if node == ROOT else (*prefix_of(tree, tree.parents[node]), tree.tokens[node])


def draw_as_the_worker(logits: torch.Tensor, depth: int, samples: Sequence[int]) -> list[int]:
    """One draw for each of the samples from one row of logits; a sample keeps its seed."""
    count = len(samples)
    info = SimpleNamespace(
        is_all_greedy=False,
        is_any_greedy=False,
        temperatures=torch.ones(count, 1),
        sampling_seed=torch.tensor(samples) * 7919 + 13,
        need_top_p_sampling=False,
        need_top_k_sampling=False,
        need_min_p_sampling=False,
    )
    rows, positions = torch.arange(count), torch.full((count,), 100 + depth)
    return sampling.NextTokens(logits.expand(count, VOCABULARY), info, rows, positions)(range(count))


def draw_greedy(logits: torch.Tensor, depth: int, samples: Sequence[int]) -> list[int]:
    return [int(logits.argmax())] * len(samples)


def emitted(target: Target, seed: int, draw: Draw, bias: float = 0.0) -> Counter[Prefix]:
    """The first tokens of `DRAWS` speculative decodings, with a new random tree behind every committed prefix.

    `bias` is the chance to accept the first draft token whatever the target drew.
    """
    generator = random.Random(seed)
    trees: dict[Prefix, DraftTree] = defaultdict(lambda: random_tree(generator, depth=2))
    texts: list[Prefix] = [()] * DRAWS
    while open_ones := [sample for sample, text in enumerate(texts) if len(text) < LENGTH]:
        step = [trees[texts[sample]] for sample in open_ones]

        def next_tokens(wanted: list[tuple[int, int]]) -> list[int]:
            groups: dict[Prefix, list[int]] = defaultdict(list)
            for index, (i, node) in enumerate(wanted):
                groups[texts[open_ones[i]] + prefix_of(step[i], node)].append(index)  # noqa: B023
            tokens = [0] * len(wanted)
            for prefix, indices in groups.items():
                samples = [open_ones[wanted[index][0]] for index in indices]
                for index, token in zip(indices, draw(target.logits(prefix), len(prefix), samples), strict=True):
                    tokens[index] = token
            for index, (i, node) in enumerate(wanted):
                if node == ROOT and generator.random() < bias:
                    tokens[index] = step[i].tokens[0]  # noqa: B023
            return tokens

        for sample, (_, tokens) in zip(open_ones, follow(step, next_tokens), strict=True):
            texts[sample] += tuple(tokens)
    return Counter(text[:LENGTH] for text in texts)


def p_value(target: Target, counts: Counter[Prefix]) -> float:
    texts = list(itertools.product(range(VOCABULARY), repeat=LENGTH))
    expected = torch.tensor([target.probability(text) for text in texts], dtype=torch.float64)
    observed = torch.tensor([counts[text] for text in texts], dtype=torch.float64)
    rare = expected * DRAWS < 5  # cells too small for the test go together
    observed = torch.cat((observed[~rare], observed[rare].sum().view(1)))
    expected = torch.cat((expected[~rare], expected[rare].sum().view(1))) * DRAWS
    kept = expected > 0
    return float(chisquare(observed[kept].numpy(), (expected[kept] * DRAWS / expected[kept].sum()).numpy()).pvalue)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_joint_distribution_is_the_targets(seed: int) -> None:
    target = Target(seed)
    assert p_value(target, emitted(target, seed, draw_as_the_worker)) > 0.001


def test_greedy_targets_would_be_noticed() -> None:
    target = Target(1)
    assert p_value(target, emitted(target, 1, draw_greedy)) < 1e-9


def test_a_slightly_biased_acceptance_would_be_noticed() -> None:
    target = Target(1)
    assert p_value(target, emitted(target, 1, draw_as_the_worker, bias=0.05)) < 1e-6


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"), [(3, 1.0, 0.0), (VOCABULARY, 0.7, 0.0), (VOCABULARY, 1.0, 0.4), (3, 0.9, 0.2)]
)
def test_filtered_draws_keep_the_filtered_distribution(
    monkeypatch: pytest.MonkeyPatch, top_k: int, top_p: float, min_p: float
) -> None:
    from sglang.srt.layers import sampler

    original = sampler.top_k_top_p_min_p_sampling_from_probs_torch
    monkeypatch.setattr(
        "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch",
        lambda *args, **options: sampling.sample_filtered(original, *args, **options),
    )
    logits = torch.tensor([1.0, 0.2, 2.0, -0.5])
    info = SimpleNamespace(
        is_all_greedy=False,
        is_any_greedy=False,
        temperatures=torch.ones(DRAWS, 1),
        sampling_seed=torch.arange(DRAWS) * 7919 + 13,
        need_top_p_sampling=top_p < 1,
        need_top_k_sampling=top_k < VOCABULARY,
        need_min_p_sampling=min_p > 0,
        top_ks=torch.full((DRAWS,), top_k),
        top_ps=torch.full((DRAWS,), top_p),
        min_ps=torch.full((DRAWS,), min_p),
        max_top_k=top_k,
    )
    rows, positions = torch.arange(DRAWS), torch.full((DRAWS,), 100)
    drawn = torch.tensor(sampling.NextTokens(logits.expand(DRAWS, VOCABULARY), info, rows, positions)(range(DRAWS)))
    expected = filtered(logits.softmax(-1).tolist(), top_k, top_p, min_p)
    observed = [int((drawn == token).sum()) for token in range(VOCABULARY)]
    assert all(count == 0 for count, chance in zip(observed, expected, strict=True) if chance == 0)
    kept = [token for token in range(VOCABULARY) if expected[token] > 0]
    if len(kept) > 1:
        assert chisquare([observed[t] for t in kept], [expected[t] * DRAWS for t in kept]).pvalue > 0.001


def filtered(probs: list[float], top_k: int, top_p: float, min_p: float) -> list[float]:
    """By definition: of the tokens in falling order, those in every filter, made to sum to one."""
    order = sorted(range(len(probs)), key=lambda token: -probs[token])
    kept = set()
    for rank, token in enumerate(order):
        before = sum(probs[other] for other in order[:rank])
        if rank < top_k and before <= top_p and probs[token] >= min_p * probs[order[0]]:
            kept.add(token)
    total = sum(probs[token] for token in kept)
    return [probs[token] / total if token in kept else 0.0 for token in range(len(probs))]
