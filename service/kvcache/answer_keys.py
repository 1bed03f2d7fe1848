"""Names under which the plugin reports per output token in SGLang's `meta_info`. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HELD_KEY = "specserve_kv_held"
"""How many tokens the request's KV cache held at its end, the same number for each token; absent when all were."""
READ_KEY = "specserve_kv_read"
"""Share of the key rows that decode steps read, the same number for each token; absent when all were."""
LOGPROB_KEY = "specserve_forced_logprob"
"""Natural log-probability of each token that was forced; see `teacher`."""
BEST_KEY = "specserve_forced_best"
"""1 where the forced token was the model's own greedy choice, else 0."""
SERIES_PREFIX = "specserve_kv_"
"""What the plugin's series in the engine's `/metrics` begin with."""
TEACHER_VARIABLE = "SPECSERVE_TEACHER"
"""Set to 1, an engine lets requests force their tokens."""
POISON_VARIABLE = "SPECSERVE_KV_POISON"
"""Set to 1, an engine whose requests lose tokens fills freed slots with NaN."""


def last_value(meta_info: Mapping[str, Any], key: str) -> Any:
    """The newest value under `key` of one request; None where it has none.

    A request that ran beside one that has the key is given the key with None for its tokens.
    """
    known = [value for value in meta_info.get(key) or () if value is not None]
    return known[-1] if known else None
