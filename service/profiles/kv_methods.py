"""What a profile's KV cache does to texts, by name."""

from __future__ import annotations

from service.profiles.facts import ModelShape
from service.profiles.schema import KvCache


def kv_policy(kv: KvCache) -> str | None:
    """What compresses the cache, as quality reports and answers name it; None for a cache that holds everything."""
    if kv.selector != "none":
        return f"{kv.selector}:{kv.selector_tokens}"
    if kv.quantization != "none":
        return f"{kv.quantization}:{kv.rotation}"
    return None if kv.eviction == "none" else f"{kv.eviction}:{kv.budget}"


SELECTOR_FIELDS = ("selector_tokens", "selector_page", "selector_options")
QUANTIZATION_FIELDS = ("rotation", "calibration", "group_size")
QUANTIZED_BITS = {"none": 0, "int8": 8, "int4": 4, "int2": 2}
"""Bits of a channel by the name of `kv.quantization`; 0: as the dtype has it."""
EVICTION_FIELDS = ("budget", "sinks", "window", "eviction_interval", "eviction_options")


def stored_as(kv: KvCache, target_dtype: str) -> str:
    """What a channel is stored as: the quantization, else the dtype, which `auto` takes from the target."""
    if kv.quantization != "none":
        return kv.quantization
    return target_dtype if kv.dtype == "auto" else kv.dtype


def slot_bytes(kv: KvCache, shape: ModelShape, target_dtype: str) -> int:
    """Bytes of one token's keys and values in all layers. Raises KeyError for an unknown dtype.

    Packed rows are those of `service.kvcache.quantizer`: codes, and a float16 scale for each group, below 8 bits a
    float16 least value too.
    """
    bits = QUANTIZED_BITS[kv.quantization]
    if not bits:
        return shape.kv_bytes_per_token(stored_as(kv, target_dtype))
    numbers = 1 if bits == 8 else 2
    row = shape.head_dim * bits // 8 + shape.head_dim // (kv.group_size or shape.head_dim) * numbers * 2
    return 2 * shape.layers * shape.kv_heads * row


def whole_cache(kv: KvCache) -> KvCache:
    """The same cache without anything that compresses it."""
    usual = KvCache()
    methods = ("eviction", *EVICTION_FIELDS, "selector", *SELECTOR_FIELDS, "quantization", *QUANTIZATION_FIELDS)
    own = (*methods, "quality_report", "quality_forced")
    return kv.model_copy(update={name: getattr(usual, name) for name in own})
