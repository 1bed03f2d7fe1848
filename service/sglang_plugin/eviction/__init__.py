"""Eviction of tokens inside running requests: which stay, what was seen of them, and where SGLang must be told."""
