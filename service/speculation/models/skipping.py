"""A model with some of its sublayers left out, sharing the weights of the whole one."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from service.errors import ConfigError
from service.speculation.models.folder import config_of


@dataclass(frozen=True)
class SkipSet:
    """Layers, counted from 0, whose attention or MLP is left out."""

    attention: tuple[int, ...] = ()
    mlp: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.attention) + len(self.mlp)


@dataclass(frozen=True)
class Finding:
    """A searched skip set of one model: the share of the model's own tokens that the rest still predicts, that share
    for the evenly spaced set of the same size, skip sets tried, and seconds spent."""

    skip: SkipSet
    matchness: float
    even_matchness: float
    trials: int
    seconds: float


def evenly_spaced(layers: int, fraction: float) -> SkipSet:
    """Both sublayers of that share of the interior layers, spread evenly; the first and the last layer always stay.

    Source: unified layer skipping; the start of SWIFT's search (note 4.4). Raises ValueError for fractions outside
    [0, 1].
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"the share of skipped layers must lie in [0, 1], got {fraction}")
    interior = max(layers - 2, 0)
    count = round(fraction * interior)
    chosen = tuple(1 + (2 * i + 1) * interior // (2 * count) for i in range(count))
    return SkipSet(chosen, chosen)


class _NoAttention(torch.nn.Module):  # type: ignore[misc]
    """Adds nothing to the residual stream, and keeps no keys and values."""

    def forward(self, hidden_states: torch.Tensor, **_: object) -> tuple[torch.Tensor, None]:
        return torch.zeros_like(hidden_states), None


class _NoMlp(torch.nn.Module):  # type: ignore[misc]
    """Adds nothing to the residual stream."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(hidden_states)


def without(model: Any, skip: SkipSet) -> Any:
    """The model without those sublayers; weights are shared and `model` stays as it is.

    Raises ConfigError for a model whose layers have no `self_attn` and `mlp`, and for layers that it does not have.
    """
    whole = model.base_model
    layers = list(getattr(whole, "layers", ()))
    unknown = [i for i in (*skip.attention, *skip.mlp) if not 0 <= i < len(layers)]
    if unknown or not all(hasattr(layer, "self_attn") and hasattr(layer, "mlp") for layer in layers):
        raise ConfigError(
            [
                f"cannot skip layers {sorted(set(unknown)) or 'at all'} of {type(model).__name__}"
                f" with {len(layers)} layers"
            ]
        )
    for i in {*skip.attention, *skip.mlp}:
        layers[i] = _twin(layers[i])
        if i in skip.attention:
            layers[i].self_attn = _NoAttention()
        if i in skip.mlp:
            layers[i].mlp = _NoMlp()
    trunk = _twin(whole)
    trunk.layers = torch.nn.ModuleList(layers)
    shortened = _twin(model)
    setattr(shortened, model.base_model_prefix, trunk)
    return shortened


def _twin(module: Any) -> Any:
    """A module of the same parts, whose parts can be exchanged without changing `module`."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    return twin


def skip_file_of(folder: str, model: str) -> Path:
    """Where in `folder` the skip set of the model in folder `model` is stored; other weights have another name."""
    path = Path(model).resolve()
    sizes = sorted((file.name, file.stat().st_size) for file in path.glob("*.safetensors"))
    mark = hashlib.sha256(json.dumps([config_of(model), sizes], sort_keys=True).encode()).hexdigest()[:12]
    return Path(folder, f"{path.name}-{mark}.json")


def store(folder: str, model: str, finding: Finding) -> Path:
    """Write the skip set of `model`; its path. Replaces an older one."""
    path = skip_file_of(folder, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(finding), indent=2) + "\n")
    return path


def stored(folder: str, model: str) -> Finding:
    """The skip set that was stored for `model`. Raises ConfigError when there is none."""
    path = skip_file_of(folder, model)
    try:
        content = json.loads(path.read_text())
        skip = SkipSet(*(_numbers(content["skip"][kind]) for kind in ("attention", "mlp")))
        return Finding(**(content | {"skip": skip}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            [f"no skip set for {model} in {path}: {error}; search one first, or leave out skip_file"]
        ) from None


def _numbers(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
