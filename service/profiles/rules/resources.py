"""Rules about devices, memory and arguments."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.command import CPU_ATTENTION_BACKEND, CPU_KV_TOKENS
from service.profiles.rules.finding import Case, Finding, Rule, error, warning

_GIB = 2**30
_OWN_FLAGS = frozenset(
    (
        *("--model-path", "--model", "--served-model-name", "--host", "--port", "--device", "--dtype"),
        *("--tp-size", "--tensor-parallel-size", "--max-total-tokens", "--kv-cache-dtype", "--page-size"),
        *("--attention-backend", "--max-running-requests", "--chunked-prefill-size", "--context-length"),
        *("--tool-call-parser", "--disable-radix-cache", "--trust-remote-code", "--tp", "--sampling-backend"),
        *("--disable-overlap-schedule",),
    )
)


_NOT_UNDER_SPECSERVE = frozenset(
    ("--enable-return-hidden-states", "--enable-custom-logit-processor", "--enable-mixed-chunk")
)


def cpu_runs_one_process(case: Case) -> Iterator[Finding]:
    """Tensor parallelism on a CPU needs operators that only AMX builds have."""
    if case.on_cpu and case.runtime.tp != 1:
        yield error("runtime.tp", "a CPU engine is one process: set tp 1")


def threads_belong_to_cpu(case: Case) -> Iterator[Finding]:
    """`threads` does nothing for a GPU engine."""
    if not case.on_cpu and case.runtime.threads is not None:
        yield error("runtime.threads", "threads is for CPU engines: remove it")


def attention_backend_fits(case: Case) -> Iterator[Finding]:
    """Only our backend verifies drafts on a CPU, and it runs nowhere else."""
    field, backend = "runtime.attention_backend", case.runtime.attention_backend
    if backend is None:
        return
    if not case.on_cpu and backend == CPU_ATTENTION_BACKEND:
        yield error(field, f"{backend} runs on a CPU only: remove it")
    if case.on_cpu and backend not in (CPU_ATTENTION_BACKEND, "torch_native"):
        yield error(field, f"{backend} does not run on a plain CPU: remove it")
    if case.on_cpu and backend == "torch_native" and case.spec.algorithm != "none":
        yield error(field, "torch_native cannot verify drafts: remove it, or set speculation.algorithm none")


def kv_pool_fits_memory(case: Case) -> Iterator[Finding]:
    """The KV pool of a CPU engine is ordinary memory; a draft model has a pool as long as the target's."""
    memory = case.facts.memory_bytes
    if not case.on_cpu or memory is None or case.facts.target is None:
        return
    dtype = case.target.dtype if case.kv.dtype == "auto" else case.kv.dtype
    tokens = case.kv.max_tokens or CPU_KV_TOKENS
    shapes = [shape for shape in (case.facts.target, case.facts.draft) if shape is not None]
    needed = tokens * sum(shape.kv_bytes_per_token(dtype) for shape in shapes)
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


def extra_args_do_not_override(case: Case) -> Iterator[Finding]:
    """Flags that the launcher relies on must not be given twice; the others nobody checks."""
    flags = [arg.partition("=")[0] for arg in case.runtime.extra_args if arg.startswith("--")]
    for flag in flags:
        if flag in _OWN_FLAGS or flag.startswith("--speculative-"):
            yield error("runtime.extra_args", f"{flag} comes from the profile: remove it here")
        if case.spec.algorithm != "none" and flag in _NOT_UNDER_SPECSERVE:
            yield error(
                "runtime.extra_args", f"{flag} gives wrong results with drafts: remove it, or set algorithm none"
            )
    if flags:
        yield warning("runtime.extra_args", f"no rule checks these: {' '.join(flags)}")


RULES: tuple[Rule, ...] = (
    cpu_runs_one_process,
    threads_belong_to_cpu,
    attention_backend_fits,
    kv_pool_fits_memory,
    context_fits,
    extra_args_do_not_override,
)
