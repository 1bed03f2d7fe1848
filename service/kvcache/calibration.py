"""Rotations from text: a model reads it, and what its attention looked at is summed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from service.kvcache.rotations.oscar import turn_of

_NAME = "specserve_calibration"


class Moments:
    """Second moments of one layer: of queries, and of values weighted by the attention that their keys draw.

    Means over the KV heads, as one rotation serves them all; the sums of keys and values are by head.
    """

    def __init__(self, heads: int, dim: int) -> None:
        self.keys, self.values = (torch.zeros(dim, dim, dtype=torch.float64) for _ in range(2))
        self.key_sum, self.value_sum = (torch.zeros(heads, dim, dtype=torch.float64) for _ in range(2))
        self.tokens = 0

    def add(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Queries [heads, n, dim], keys and values [kv_heads, n, dim] of one text. Mutates."""
        grouped = queries.reshape(len(keys), -1, queries.shape[-1])
        looked = grouped.transpose(1, 2) @ grouped / grouped.shape[1]
        drawn = torch.einsum("htd,hde,hte->ht", keys, looked, keys)
        weight = (drawn / drawn.mean(1, keepdim=True)).unsqueeze(-1)
        self.keys += looked.mean(0).double()
        self.values += ((values * weight).transpose(1, 2) @ values).mean(0).double()
        self.key_sum += keys.double().sum(1)
        self.value_sum += values.double().sum(1)
        self.tokens += keys.shape[1]


class _Listener:
    """An attention function of transformers that is plain attention and adds to the moments of each layer."""

    def __init__(self) -> None:
        self.layers: dict[int, Moments] = {}

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **options: Any
    ) -> tuple[torch.Tensor, None]:
        """Texts come one at a time: [1, heads, n, dim] -> [1, n, heads, dim]."""
        self.layers.setdefault(module.layer_idx, Moments(key.shape[1], key.shape[-1])).add(query[0], key[0], value[0])
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=options["scaling"], enable_gqa=True
        )
        return out.transpose(1, 2).contiguous(), None


def calibrate(model: Path, text: str, tokens: int, piece: int) -> dict[str, torch.Tensor]:
    """What `oscar` needs of `model`, from the first `tokens` tokens of `text`.

    `keys` and `values` are float32 [layers, dim, dim], `keys_mean` and `values_mean` [layers, kv_heads, dim].

    Blocks for as long as the model reads them, in pieces of `piece`. Raises ValueError for too little text, and what
    transformers raises for a folder that it cannot load.
    """
    from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer

    ids: Sequence[int] = AutoTokenizer.from_pretrained(model)(text, add_special_tokens=False)["input_ids"]
    if len(ids) < tokens:
        raise ValueError(f"the text holds {len(ids)} tokens only; ask for fewer than {tokens} or give more text")
    listener = _Listener()
    AttentionInterface.register(_NAME, listener)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation=_NAME).eval()
    with torch.inference_mode():
        for start in range(0, tokens, piece):
            network(torch.tensor([ids[start : min(start + piece, tokens)]]), use_cache=False, logits_to_keep=1)
    moments = [listener.layers[layer] for layer in sorted(listener.layers)]
    return {
        "keys": torch.stack([turn_of(layer.keys) for layer in moments]),
        "values": torch.stack([turn_of(layer.values) for layer in moments]),
        "keys_mean": torch.stack([(layer.key_sum / layer.tokens).float() for layer in moments]),
        "values_mean": torch.stack([(layer.value_sum / layer.tokens).float() for layer in moments]),
    }


def write_calibration(path: Path, turns: dict[str, torch.Tensor]) -> None:
    """Write the file that `kv.calibration` names, whole or not at all. Raises OSError."""
    part = path.with_suffix(path.suffix + ".part")
    torch.save(turns, part)
    part.replace(path)
