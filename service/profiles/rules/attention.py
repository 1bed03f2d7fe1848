"""Rules about attention backends and pages: who can verify a tree, a chain or nothing.

From SGLang 0.5.23: `arg_groups/speculative_hook.py` (trees on pages, UNO's FA3, DFLASH's fallback),
`speculative/draft_utils.py` (backends of draft steps), `speculative/frozen_kv_mtp_worker_v2.py`,
`arg_groups/overrides.py` (pages that a backend forces), `arg_groups/attention_hook.py` and
`layers/attention/attention_registry.py` (backends without speculation), and which of `layers/attention/*_backend.py`
read a custom mask.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.command import CPU_ATTENTION_BACKEND, CPU_PREFILL_TOKENS, UNO_ATTENTION_BACKEND
from service.profiles.rules.finding import Case, Finding, Rule, error, warning

_NO_SPECULATION = ("torch_native", "flex_attention", "hpc_ops")
_CHAINS_ONLY = ("flashmla", "trtllm_mha", "trtllm_mla", "cutedsl_mla", "dsa", "nsa", "qsa", "dsv4", "compressed")
_TREES = ("flashinfer", "triton", "fa3", "fa4")
_PAGED_TREES = ("flashinfer", "fa3", "triton")
_BLOCK_DRAFTS = ("flashinfer", "fa3", "fa4", "triton", "trtllm_mha")
_PAGES = {
    "flashmla": (64,),
    "hpc_ops": (64,),
    "trtllm_mla": (32, 64),
    "cutedsl_mla": (32, 64),
    "trtllm_mha": (16, 32, 64, 128),
}


def backend_runs_on_device(case: Case) -> Iterator[Finding]:
    """Only our backend verifies drafts on a CPU, and it runs nowhere else."""
    field, backend = "runtime.attention_backend", case.runtime.attention_backend
    if backend is None:
        return
    if not case.on_cpu and backend == CPU_ATTENTION_BACKEND:
        yield error(field, f"{backend} runs on a CPU only: remove it")
    if case.on_cpu and backend not in (CPU_ATTENTION_BACKEND, "torch_native"):
        yield error(field, f"{backend} does not run on a plain CPU: remove it")


def backend_verifies(case: Case) -> Iterator[Finding]:
    """Some backends cannot verify drafts, some cannot verify trees."""
    field, spec, backend = "runtime.attention_backend", case.spec, case.runtime.attention_backend
    if backend is None or spec.algorithm == "none":
        return
    if backend in _NO_SPECULATION:
        yield error(field, f"{backend} cannot verify drafts: remove it, or set speculation.algorithm none")
    elif spec.algorithm == "uno" and backend != UNO_ATTENTION_BACKEND:
        yield error(field, f"algorithm uno runs on {UNO_ATTENTION_BACKEND} only: remove it")
    elif backend in _CHAINS_ONLY and (spec.topk > 1 or spec.algorithm == "ngram"):
        change = "another algorithm" if spec.algorithm == "ngram" else "topk 1"
        yield error(field, f"{backend} verifies chains only: set {change}, or use {', '.join(_TREES)}")
    elif spec.algorithm in ("dflash", "dspark") and backend not in _BLOCK_DRAFTS and not case.on_cpu:
        yield warning(
            field,
            f"the draft model does not run on {backend} and takes flashinfer instead: measure that, or use "
            f"{', '.join(_BLOCK_DRAFTS)}",
        )


def frozen_kv_trees_need_triton(case: Case) -> Iterator[Finding]:
    """Its draft makes a backend of its own for trees, and knows how to for two; only one of them verifies trees."""
    if case.spec.algorithm == "frozen_kv_mtp" and case.spec.topk > 1 and case.runtime.attention_backend != "triton":
        yield error(
            "speculation.topk", "frozen_kv_mtp drafts trees on triton only: set attention_backend triton, or topk 1"
        )


def trees_need_single_token_pages(case: Case) -> Iterator[Finding]:
    """A branch inside a page needs a copy of the page, which few attention backends make."""
    field, spec, backend = "kv.page_size", case.spec, case.runtime.attention_backend
    if case.kv.page_size == 1 or spec.algorithm == "none" or backend in _CHAINS_ONLY:
        return
    if case.on_cpu:
        yield error(field, "speculation on a CPU needs page_size 1")
    elif spec.algorithm == "ngram" and backend != "flashinfer":
        yield error(field, "ngram drafts a tree: set page_size 1, or attention_backend flashinfer")
    elif spec.topk > 1 and backend not in _PAGED_TREES and spec.algorithm != "uno":
        yield error(field, f"topk above 1 needs page_size 1, or attention_backend {', '.join(_PAGED_TREES)}")
    elif spec.topk > 1 and spec.algorithm in ("uno", "frozen_kv_mtp"):
        yield warning(
            field, f"SGLang does not check trees of {spec.algorithm} on pages: page_size 1 is the safe choice"
        )


def backend_takes_the_pages(case: Case) -> Iterator[Finding]:
    """SGLang silently changes a page size that the backend cannot have."""
    field, backend, size = "kv.page_size", case.runtime.attention_backend, case.kv.page_size
    sizes = _PAGES.get(backend or "")
    if sizes is not None and size not in sizes and not case.on_cpu:
        yield error(field, f"{backend} takes pages of {' or '.join(map(str, sizes))}: set one of them")
    if backend == "fa4" and size not in (1, 128):
        yield warning(field, "on Blackwell fa4 takes pages of 128 for chains and 1 for trees, whatever is set")


def prefill_fills_pages(case: Case) -> Iterator[Finding]:
    """SGLang stops at start when a piece of a prompt ends inside a page."""
    chunk = case.runtime.chunked_prefill_tokens or (CPU_PREFILL_TOKENS if case.on_cpu else None)
    if chunk is not None and chunk % case.kv.page_size:
        yield error(
            "runtime.chunked_prefill_tokens",
            f"set a multiple of kv.page_size {case.kv.page_size}, or another page_size",
        )


def uno_keeps_its_backend(case: Case) -> Iterator[Finding]:
    """FA3 reads no e5m2 KV, and SGLang then turns to triton, on which UNO does not run."""
    if case.spec.algorithm == "uno" and case.kv.dtype == "fp8_e5m2":
        yield error("kv.dtype", "algorithm uno runs on fa3, which reads no fp8_e5m2: set auto, bfloat16 or fp8_e4m3")


RULES: tuple[Rule, ...] = (
    backend_runs_on_device,
    backend_verifies,
    frozen_kv_trees_need_triton,
    trees_need_single_token_pages,
    backend_takes_the_pages,
    prefill_fills_pages,
    uno_keeps_its_backend,
)
