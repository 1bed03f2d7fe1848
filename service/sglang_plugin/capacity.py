"""Room for draft tokens at the very end of the context."""

from __future__ import annotations

from collections.abc import Callable


def extra_row_slots(original: Callable[[], int]) -> int:
    """Around hook of SGLang's `get_req_to_token_extra_context_len`: slots of a request's row behind its context.

    Each decode step reserves `get_alloc_reserve_per_decode()` slots, which for more than 8 draft tokens is more than
    SGLang keeps free, so that a request which fills its context would write behind its row.
    """
    from sglang.srt.mem_cache.allocation_sizing import get_alloc_reserve_per_decode
    from sglang.srt.runtime_context import get_spec

    if get_spec().speculative_algorithm is None:
        return original()
    return max(original(), get_alloc_reserve_per_decode())
