"""What a profile's KV cache does to texts, by name."""

from __future__ import annotations

from service.profiles.facts import ModelShape
from service.profiles.schema import KvCache


def kv_policy(kv: KvCache) -> str | None:
    """What compresses the cache, as quality reports and answers name it; None for a cache that holds everything."""
    if kv.selector != "none":
        return f"{kv.selector}:{kv.selector_tokens}"
    if kv.quantization != "none":
        window = f":{kv.full_sinks}+{kv.full_recent}" if has_window(kv) else ""
        return f"{kv.quantization}:{kv.rotation}{window}"
    return None if kv.eviction == "none" else f"{kv.eviction}:{kv.budget}"


SELECTOR_FIELDS = ("selector_tokens", "selector_page", "selector_options")
QUANTIZATION_FIELDS = ("rotation", "calibration", "group_size", "full_sinks", "full_recent")
QUANTIZED_BITS = {"none": 0, "int8": 8, "int4": 4, "int2": 2}
"""Bits of a channel by the name of `kv.quantization`; 0: as the dtype has it."""
EVICTION_FIELDS = ("budget", "sinks", "window", "eviction_interval", "eviction_options")


def stored_as(kv: KvCache, target_dtype: str) -> str:
    """What a channel is stored as: the quantization, else the dtype, which `auto` takes from the target."""
    if kv.quantization != "none":
        return kv.quantization
    return target_dtype if kv.dtype == "auto" else kv.dtype


def has_window(kv: KvCache) -> bool:
    """Whether a quantized cache has some tokens in full precision."""
    return bool(kv.full_sinks or kv.full_recent)


def text_bytes(kv: KvCache, shape: ModelShape, target_dtype: str, held: int) -> int:
    """Bytes of a text of which `held` tokens are in the cache, with what it has in full precision as well."""
    packed = held * slot_bytes(kv, shape, target_dtype)
    if kv.quantization == "none":
        return packed
    full = shape.kv_bytes_per_token(target_dtype if kv.dtype == "auto" else kv.dtype)
    return packed + min(held, kv.full_sinks + kv.full_recent) * full


def slot_bytes(kv: KvCache, shape: ModelShape, target_dtype: str) -> int:
    """Bytes of one token's keys and values in all layers. Raises KeyError for an unknown dtype.

    Packed rows are those of `service.kvcache.quantizer`: codes, and a float16 scale for each group, below 8 bits a
    float16 least value too.
    """
    bits = QUANTIZED_BITS[kv.quantization]
    if not bits:
        return shape.kv_bytes_per_token(stored_as(kv, target_dtype))
    numbers = 1 if bits == 8 else 2
    dims = shape.head_dim, shape.value_dim or shape.head_dim
    row = sum(dim * bits // 8 + dim // (kv.group_size or dim) * numbers * 2 for dim in dims)
    return shape.layers * shape.kv_heads * row


def whole_cache(kv: KvCache) -> KvCache:
    """The same cache without anything that compresses it."""
    usual = KvCache()
    methods = ("eviction", *EVICTION_FIELDS, "selector", *SELECTOR_FIELDS, "quantization", *QUANTIZATION_FIELDS)
    own = (*methods, "quality_report", "quality_forced")
    return kv.model_copy(update={name: getattr(usual, name) for name in own})
