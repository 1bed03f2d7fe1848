"""Searches, off the hot path, the sublayers that a model can miss most easily; see the drafter `layer_skip`."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

import torch

from service.speculation.models.loading import load_model
from service.speculation.models.skipping import Finding, SkipSet, evenly_spaced, store, without

Part = tuple[str, int]
"""A sublayer: `attention` or `mlp`, and its layer."""


@dataclass(frozen=True)
class Sample:
    """Texts that the model wrote, [texts, length], and its own best token behind each position but the last."""

    tokens: torch.Tensor
    targets: torch.Tensor


def search_skip_set(
    model_folder: str,
    folder: str,
    *,
    seconds: float,
    skip: float = 0.45,
    texts: int = 4,
    length: int = 96,
    seed: int = 0,
) -> Finding:
    """Search the model's best skip set with that share of interior sublayers, and store it in `folder`.

    Blocks for about `seconds` after the model is loaded and has written its texts; uses no text of any user. Raises
    ConfigError for a model whose layers cannot be skipped.
    """
    model = load_model(model_folder)
    finding = search(model, own_texts(model, texts, length, seed), seconds=seconds, skip=skip, seed=seed)
    store(folder, model_folder, finding)
    return finding


@torch.inference_mode()  # type: ignore[untyped-decorator]
def own_texts(model: Any, texts: int, length: int, seed: int, temperature: float = 0.7) -> Sample:
    """Texts sampled from the model itself, from its start token on, and what it would have said greedily."""
    start = model.config.bos_token_id or 0
    tokens = torch.full((texts, 1), start, device=model.device)
    generator = torch.Generator(model.device).manual_seed(seed)
    output = model(tokens, use_cache=True)
    for _ in range(length - 1):
        chances = (output.logits[:, -1].float() / temperature).softmax(-1)
        new = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat([tokens, new], dim=1)
        output = model(new, past_key_values=output.past_key_values, use_cache=True)
    return Sample(tokens, predictions(model, tokens))


@torch.inference_mode()  # type: ignore[untyped-decorator]
def predictions(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The model's best token behind each position but the last, in one teacher-forced pass."""
    best: torch.Tensor = model(tokens, use_cache=False).logits[:, :-1].argmax(-1)
    return best


def matchness(model: Any, skip: SkipSet, sample: Sample) -> float:
    """Share of the whole model's tokens that the model without those sublayers predicts."""
    return float((predictions(without(model, skip), sample.tokens) == sample.targets).float().mean())


def search(model: Any, sample: Sample, *, seconds: float, skip: float, seed: int = 0) -> Finding:
    """Local search from the evenly spaced set, and from the sublayers that matter least one by one.

    The size stays that of the even set, and first and last layer stay whole. Half the time may go into leaving out
    single sublayers; the rest exchanges a skipped sublayer for a kept one and keeps what is no worse.
    """
    begin = time.monotonic()
    generator = random.Random(seed)
    layers = int(model.config.num_hidden_layers)
    parts: list[Part] = [(kind, layer) for layer in range(1, layers - 1) for kind in ("attention", "mlp")]
    even = evenly_spaced(layers, skip)
    best, best_score = parts_of(even), matchness(model, even, sample)
    even_score, trials = best_score, 1

    def try_out(candidate: frozenset[Part]) -> float:
        nonlocal best, best_score, trials
        score = matchness(model, set_of(candidate), sample)
        trials += 1
        if len(candidate) == len(even) and score >= best_score:
            best, best_score = candidate, score
        return score

    alone: dict[Part, float] = {}
    for part in generator.sample(parts, len(parts)):
        if time.monotonic() - begin < seconds / 2:
            alone[part] = try_out(frozenset([part]))
    if len(alone) == len(parts):
        try_out(frozenset(sorted(parts, key=lambda part: -alone[part])[: len(even)]))
    while 0 < len(even) < len(parts) and time.monotonic() - begin < seconds:
        out, back = generator.choice(sorted(set(parts) - best)), generator.choice(sorted(best))
        try_out(best - {back} | {out})
    return Finding(set_of(best), best_score, even_score, trials, time.monotonic() - begin)


def parts_of(skip: SkipSet) -> frozenset[Part]:
    """The set's sublayers one by one."""
    return frozenset([*(("attention", layer) for layer in skip.attention), *(("mlp", layer) for layer in skip.mlp)])


def set_of(parts: frozenset[Part]) -> SkipSet:
    """The skip set of these sublayers."""
    kinds = (sorted(layer for kind, layer in parts if kind == wanted) for wanted in ("attention", "mlp"))
    attention, mlp = kinds
    return SkipSet(tuple(attention), tuple(mlp))
