"""The KV cache's series in the engine's own `/metrics`; the gateway reads them there and adds model and pool.

Imports no sglang, and prometheus_client only when something is told: that happens in the scheduler's process, by when
SGLang has said where its processes share their values.
"""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import Any

from service.kvcache.answer_keys import SERIES_PREFIX


@cache
def pool_series() -> PoolSeries:
    """The process's own, in Prometheus' usual registry."""
    return PoolSeries(None)


@cache
def eviction_series() -> EvictionSeries:
    """The process's own, in Prometheus' usual registry."""
    return EvictionSeries(None)


@cache
def reading_series() -> ReadingSeries:
    """The process's own, in Prometheus' usual registry."""
    return ReadingSeries(None)


class PoolSeries:
    """What a token costs. `registry` None: Prometheus' usual one."""

    def __init__(self, registry: Any | None) -> None:
        self._token_bytes = _gauge("token_bytes", "Keys and values of a token, all layers, bytes", registry)

    def serve(self, pool: Any) -> None:
        """SGLang's KV pool is this one."""
        self._token_bytes.set(token_bytes(pool))


class EvictionSeries:
    """What requests lost. `registry` None: Prometheus' usual one."""

    def __init__(self, registry: Any | None) -> None:
        self._evictions = _counter("evictions", "Times that a request lost tokens", registry)
        self._dropped = _counter("evicted_tokens", "Tokens that requests lost", registry)
        self._now = _gauge("evicted_now_tokens", "Tokens of running requests whose KV is gone", registry)

    def lost(self, tokens: int) -> None:
        """One request lost so many tokens."""
        self._evictions.inc()
        self._dropped.inc(tokens)

    def missing(self, tokens: int) -> None:
        """So many tokens of the running requests are gone."""
        self._now.set(tokens)


class ReadingSeries:
    """What decode steps of finished requests read. `registry` None: Prometheus' usual one."""

    def __init__(self, registry: Any | None) -> None:
        self._read = _counter("rows_read", "Key rows that decode steps read, over layers and KV heads", registry)
        self._visible = _counter("rows_visible", "Key rows that the whole cache has for these steps", registry)

    def steps(self, read: int, visible: int) -> None:
        """One request's steps read so many key rows of the visible ones."""
        self._read.inc(read)
        self._visible.inc(visible)


def token_bytes(pool: Any) -> int:
    """Keys and values of one token in all layers of SGLang's KV pool, bytes, rounded up.

    Rows that a packed pool also has in full precision are shared out among all tokens of the pool.
    """
    layers = range(pool.start_layer, pool.start_layer + pool.layer_num)
    buffers = [buffer for layer in layers for buffer in (pool.get_key_buffer(layer), pool.get_value_buffer(layer))]
    row = sum(int(buffer[0].numel()) * int(buffer.element_size()) for buffer in buffers)
    return row + ceil(window / pool.size if (window := getattr(pool, "window_bytes", 0)) else 0)


def _counter(name: str, text: str, registry: Any | None) -> Any:
    from prometheus_client import REGISTRY, Counter

    return Counter(SERIES_PREFIX + name, text, registry=registry or REGISTRY)


def _gauge(name: str, text: str, registry: Any | None) -> Any:
    from prometheus_client import REGISTRY, Gauge

    return Gauge(SERIES_PREFIX + name, text, registry=registry or REGISTRY, multiprocess_mode="mostrecent")
