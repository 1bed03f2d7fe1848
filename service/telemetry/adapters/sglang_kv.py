"""Reads SGLang's `/v1/loads`, and the plugin's series in SGLang's `/metrics`."""

from __future__ import annotations

import re

import orjson

from service.telemetry.kv import KvFigures

# As `service.kvcache.answer_keys.SERIES_PREFIX`; the plugin gives its series no labels of its own.
_LINE = re.compile(rb"^specserve_kv_(\w+?)(?:_total)?(?:\{[^}]*\})? ([0-9.eE+]+)$", re.MULTILINE)


def read_figures(loads: bytes, metrics: bytes | None) -> KvFigures:
    """What both bodies tell; `metrics` None: it was not asked. Raises ValueError for another shape."""
    room, full = _pool(loads)
    told = {name: round(float(value)) for name, value in _LINE.findall(metrics or b"")}
    return KvFigures(
        room=room,
        full=full,
        evicted=told.get(b"evicted_now_tokens"),
        token_bytes=told.get(b"token_bytes"),
        evictions=told.get(b"evictions"),
        evicted_total=told.get(b"evicted_tokens"),
        rows_read=told.get(b"rows_read"),
        rows_visible=told.get(b"rows_visible"),
    )


def _pool(loads: bytes) -> tuple[int, int]:
    """Free and used tokens over all ranks."""
    try:
        ranks = orjson.loads(loads)["loads"]
        used = sum(int(rank["num_used_tokens"]) for rank in ranks)
        return sum(int(rank["max_total_num_tokens"]) for rank in ranks) - used, used
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"/v1/loads is not in the known shape ({error})") from error
