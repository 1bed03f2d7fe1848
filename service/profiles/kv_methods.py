"""What a profile's KV cache does to texts, by name."""

from __future__ import annotations

from service.profiles.schema import KvCache


def kv_policy(kv: KvCache) -> str | None:
    """What compresses the cache, as quality reports and answers name it; None for a cache that holds everything."""
    return None if kv.eviction == "none" else f"{kv.eviction}:{kv.budget}"
