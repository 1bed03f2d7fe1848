"""Rules about number types: what cannot be stored, and what changes answers."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.rules.finding import Case, Finding, Rule, error, warning


def kv_dtype_is_possible(case: Case) -> Iterator[Finding]:
    """KV types that the engine refuses."""
    dtype = case.kv.dtype
    if case.on_cpu and dtype.startswith("fp8"):
        yield error("kv.dtype", f"{dtype} needs a GPU: set auto, or bfloat16")
    if dtype == "float32" and case.target.dtype != "float32":
        yield error("kv.dtype", "SGLang keeps float32 KV only for a float32 model: set auto, or target.dtype float32")


def kv_dtype_keeps_answers(case: Case) -> Iterator[Finding]:
    """A smaller KV type than the model's changes answers."""
    kv, target = case.kv.dtype, case.target.dtype
    if kv not in ("auto", "float32", target):
        yield warning("kv.dtype", f"{kv} KV of a {target} model is lossy: measure it with `specserve bench quality`")


def drafts_keep_answers(case: Case) -> Iterator[Finding]:
    """Rounding depends on the number of tokens in a step; only in float32 that decides next to nothing."""
    target, drafts = case.target.dtype, case.spec.algorithm != "none"
    if target != "float32" and drafts:
        yield warning(
            "target.dtype",
            f"in {target} a draft can change the choice between nearly equal tokens: float32 avoids that",
        )


def dtype_suits_device(case: Case) -> Iterator[Finding]:
    """Types that work, but not well."""
    target = case.target.dtype
    if case.on_cpu and target != "float32":
        yield warning("target.dtype", f"the CPU operators are made for float32; {target} is untested and slower")
    elif not case.on_cpu and target == "float32":
        yield warning("target.dtype", "float32 on a GPU is slow and large: bfloat16 is usual")


RULES: tuple[Rule, ...] = (
    kv_dtype_is_possible,
    kv_dtype_keeps_answers,
    drafts_keep_answers,
    dtype_suits_device,
)
