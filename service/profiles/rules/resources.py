"""Rules about memory and the length of texts."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.command import CPU_KV_TOKENS
from service.profiles.kv_methods import slot_bytes
from service.profiles.rules.finding import Case, Finding, Rule, error, warning

_GIB = 2**30


def kv_pool_fits_memory(case: Case) -> Iterator[Finding]:
    """The KV pool of a CPU engine is ordinary memory; a draft model has a pool as long as the target's."""
    memory = case.facts.memory_bytes
    if not case.on_cpu or memory is None or case.facts.target is None:
        return
    tokens = case.kv.max_tokens or CPU_KV_TOKENS
    shapes = [shape for shape in (case.facts.target, case.facts.draft) if shape is not None]
    needed = tokens * sum(slot_bytes(case.kv, shape, case.target.dtype) for shape in shapes)
    if needed > memory // 2:
        size = f"{needed / _GIB:.1f} of {memory / _GIB:.1f} GiB memory"
        yield warning("kv.max_tokens", f"a pool of {tokens} tokens takes {size}: set a smaller one")


def context_fits(case: Case) -> Iterator[Finding]:
    """The context must be what the model knows, and what the pool holds."""
    known = case.facts.target.context_length if case.facts.target else None
    wanted, pool = case.target.context_length, case.kv.max_tokens or (CPU_KV_TOKENS if case.on_cpu else None)
    if wanted is not None and known is not None and wanted > known:
        yield error("target.context_length", f"the model knows {known} tokens: set at most that")
    length = wanted or known
    if length is not None and pool is not None and pool < length:
        yield warning("kv.max_tokens", f"texts above {pool} tokens are refused, though the context is {length}")


RULES: tuple[Rule, ...] = (kv_pool_fits_memory, context_fits)
