"""What is known about machine and model beside the profile; None is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.profiles.machine import Role

if TYPE_CHECKING:
    from service.profiles.schema import Profile

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}


@dataclass(frozen=True)
class ModelShape:
    """The sizes that decide how much a token costs in the KV cache, the longest text, and what fits together.

    `architecture` is the class name in config.json; `block_size` counts the tokens that a block drafter was trained
    to draft, for DFLASH the first one included. `value_dim` is None where values are as long as keys.
    """

    layers: int
    kv_heads: int
    head_dim: int
    context_length: int | None = None
    architecture: str | None = None
    vocab_size: int | None = None
    block_size: int | None = None
    value_dim: int | None = None

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys and values of all layers, bytes. Raises KeyError for an unknown dtype."""
        return self.layers * self.kv_heads * (self.head_dim + (self.value_dim or self.head_dim)) * _BYTES[dtype]


@dataclass(frozen=True)
class QualityReport:
    """What the profile's quality report says; `problem` tells why it cannot be read, `policy` what it judged."""

    problem: str | None = None
    policy: str | None = None
    model: str | None = None
    passed: bool | None = None
    missed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What rules may know beside the profile. `memory_bytes` is the machine's, not what is free."""

    drafters: tuple[str, ...] | None = None
    controllers: tuple[str, ...] | None = None
    accept_rules: tuple[str, ...] | None = None
    kv_eviction: tuple[str, ...] | None = None
    page_selectors: tuple[str, ...] | None = None
    kv_rotations: tuple[str, ...] | None = None
    kv_calibration_found: bool | None = None
    quality: QualityReport | None = None
    memory_bytes: int | None = None
    trial: Callable[[Profile], Mapping[str, str]] | None = None
    """What is wrong with the settings of the parts that a profile names, by field."""
    target: ModelShape | None = None
    draft: ModelShape | None = None
    role: Role = "whole"


def model_shape(config: Mapping[str, Any]) -> ModelShape | None:
    """From the content of Hugging Face's config.json; None when it lacks a needed key."""
    try:
        heads = int(config["num_attention_heads"])
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            context_length=config.get("max_position_embeddings"),
            architecture=next(iter(config.get("architectures") or ()), None),
            vocab_size=config.get("vocab_size"),
            block_size=_block_size(config),
            value_dim=config.get("v_head_dim"),
        )
    except KeyError:
        return None


def _block_size(config: Mapping[str, Any]) -> int | None:
    # As SGLang reads it: speculative/dflash_utils.py and speculative/dspark_components/dspark_config.py.
    nested = (config.get("dflash_config") or {}).get("block_size")
    for size in (config.get("dspark_block_size"), nested, config.get("block_size")):
        if size is not None:
            return int(size)
    return None
