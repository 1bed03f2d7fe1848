"""What a profile's KV cache does to texts, by name."""

from __future__ import annotations

from service.profiles.schema import KvCache


def kv_policy(kv: KvCache) -> str | None:
    """What compresses the cache, as quality reports and answers name it; None for a cache that holds everything."""
    if kv.selector != "none":
        return f"{kv.selector}:{kv.selector_tokens}"
    return None if kv.eviction == "none" else f"{kv.eviction}:{kv.budget}"


SELECTOR_FIELDS = ("selector_tokens", "selector_page", "selector_options")
EVICTION_FIELDS = ("budget", "sinks", "window", "eviction_interval", "eviction_options")


def whole_cache(kv: KvCache) -> KvCache:
    """The same cache without anything that compresses it."""
    usual = KvCache()
    own = ("eviction", *EVICTION_FIELDS, "selector", *SELECTOR_FIELDS, "quality_report", "quality_forced")
    return kv.model_copy(update={name: getattr(usual, name) for name in own})
