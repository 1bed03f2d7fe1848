"""Rules about engines on several machines, and about engines that only prefill or only decode.

From SGLang 0.5.23: `arg_groups/validation_hook.py` `check_server_args` (machines share the processes evenly) and
`check_pipeline_parallel_compat` (stages with drafts), `arg_groups/pd_disaggregation_hook.py`, and `disaggregation/`,
whose transfers copy SGLang's own KV pools.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.algorithms import listed
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import Algorithm

_HANDED_OVER: tuple[Algorithm, ...] = ("none", "eagle", "eagle3", "nextn")
"""What SGLang's own tests run with prefill engines."""


def machines_share_the_processes(case: Case) -> Iterator[Finding]:
    """Every machine runs as many of the tensor-parallel processes and stages."""
    field, nodes, runtime = "runtime.nodes", case.runtime.nodes, case.runtime
    if nodes == 1:
        return
    if case.on_cpu:
        yield error(field, "a CPU engine runs on one machine: set nodes 1")
    elif (runtime.tp * runtime.pp) % nodes:
        processes = f"{runtime.tp * runtime.pp} processes (tp times pp)"
        yield error(field, f"{processes} do not split over {nodes} machines: set a divisor, or another tp")
    else:
        yield warning(field, "engines on several machines were checked against SGLang's arguments only: test it first")


def prefill_engines_hand_over(case: Case) -> Iterator[Finding]:
    """What a prefill engine can pass on to a decode engine."""
    if case.facts.role == "whole":
        return
    if case.on_cpu:
        yield error("runtime.device", "prefill and decode engines need GPUs: set runtime.device cuda, or no prefill")
        return
    if case.spec.algorithm == "specserve":
        able = listed(_HANDED_OVER)
        yield error("speculation.algorithm", f"specserve does not draft behind prefill engines: set {able}")
    elif case.spec.algorithm not in _HANDED_OVER:
        yield warning(
            "speculation.algorithm",
            f"SGLang tests prefill engines with {listed(_HANDED_OVER)} only: test {case.spec.algorithm} first",
        )
    for method in ("eviction", "selector", "quantization"):
        if getattr(case.kv, method) != "none":
            yield error(f"kv.{method}", f"prefill engines hand over whole caches only: set kv.{method} none")
    if case.runtime.pp > 1 and case.spec.algorithm != "none":
        yield error("runtime.pp", "stages that draft do not mix with prefill engines: set pp 1, or algorithm none")
    yield warning("runtime", "prefill and decode engines were checked against SGLang's arguments only: test it first")


RULES: tuple[Rule, ...] = (machines_share_the_processes, prefill_engines_hand_over)
