"""Rules about devices and about several processes.

From SGLang 0.5.23: `arg_groups/speculative_hook.py` (devices, attention groups, UNO's one process),
`arg_groups/validation_hook.py` `check_pipeline_parallel_compat` (stages), `arg_groups/parallel_hook.py` (divisors).
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.algorithms import TRAITS, listed, names_where
from service.profiles.rules.finding import Case, Finding, Rule, error, warning


def algorithm_runs_on_device(case: Case) -> Iterator[Finding]:
    """Which algorithms a CPU engine can run."""
    if case.on_cpu and not case.traits.cpu:
        able = listed(tuple(name for name in names_where(lambda traits: traits.cpu) if name != "none"))
        yield error("speculation.algorithm", f"{case.spec.algorithm} needs a GPU: set runtime.device cuda, or {able}")


def cpu_runs_one_process(case: Case) -> Iterator[Finding]:
    """Tensor parallelism on a CPU needs operators that only AMX builds have."""
    for field in ("tp", "pp", "attention_dp"):
        if case.on_cpu and getattr(case.runtime, field) != 1:
            yield error(f"runtime.{field}", f"a CPU engine is one process: set {field} 1")


def threads_belong_to_cpu(case: Case) -> Iterator[Finding]:
    """`threads` does nothing for a GPU engine."""
    if not case.on_cpu and case.runtime.threads is not None:
        yield error("runtime.threads", "threads is for CPU engines: remove it")


def some_run_one_process(case: Case) -> Iterator[Finding]:
    """UNO has no tensor-parallel path; controllers of specserve decide by the clock, each process by its own."""
    if not case.traits.tp and case.runtime.tp != 1 and not case.on_cpu:
        yield error("runtime.tp", f"algorithm {case.spec.algorithm} runs in one process: set tp 1, and more backends")


def stages_can_draft(case: Case) -> Iterator[Finding]:
    """Several stages and drafts: EAGLE alone, behind a switch of SGLang's."""
    if case.on_cpu or case.runtime.pp == 1 or case.spec.algorithm == "none":
        return
    if not case.traits.pipeline:
        able = listed(tuple(name for name, traits in TRAITS.items() if traits.pipeline))
        yield error("runtime.pp", f"algorithm {case.spec.algorithm} runs in one pipeline stage: set pp 1, or {able}")
    elif case.runtime.attention_dp > 1:
        yield error("runtime.pp", "pipeline stages with drafts do not mix with attention groups: set attention_dp 1")
    else:
        yield warning(
            "runtime.pp",
            "drafts over several stages are behind SGLANG_ENABLE_PP_SPEC, which is set here: test it first",
        )


def attention_groups_can_draft(case: Case) -> Iterator[Finding]:
    """Attention groups with requests of their own draft in step only where SGLang was made for it."""
    field, groups = "runtime.attention_dp", case.runtime.attention_dp
    if case.on_cpu or groups == 1:
        return
    if case.runtime.tp % groups:
        yield error(
            field, f"{case.runtime.tp} tensor-parallel processes do not split into {groups}: set a divisor of tp"
        )
    if case.traits.attention_dp == "no":
        able = listed(names_where(lambda traits: traits.attention_dp != "no"))
        yield error(
            field, f"algorithm {case.spec.algorithm} does not draft in attention groups: set attention_dp 1, or {able}"
        )
    elif case.spec.algorithm == "dspark" and groups != case.runtime.tp:
        yield warning(
            field, "with a mixture-of-experts draft, dspark needs as many groups as tp: set attention_dp to tp"
        )
    elif case.spec.algorithm == "dflash":
        yield warning(field, "Domino and LiLiCorr draft heads do not run in attention groups: plain dflash drafts do")
    elif case.spec.algorithm == "frozen_kv_mtp":
        yield warning(
            field, "SGLang does not check frozen_kv_mtp in attention groups: attention_dp 1 is the safe choice"
        )


RULES: tuple[Rule, ...] = (
    algorithm_runs_on_device,
    cpu_runs_one_process,
    threads_belong_to_cpu,
    some_run_one_process,
    stages_can_draft,
    attention_groups_can_draft,
)
