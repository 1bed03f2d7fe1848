"""Rules about arguments that the profile does not know: which clash with it, and which with the algorithm.

From SGLang 0.5.23: `speculative/eagle_utils.py` (custom logit processors do not reach `eagle_sample`),
`speculative/spec_info.py` `supports_mixed_chunk`, `arg_groups/lora_hook.py`, `arg_groups/validation_hook.py`
(watermarks), `arg_groups/kv_cache_hook.py` (LMCache, unified memory), `arg_groups/speculative_hook.py` (the rest).
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.algorithms import TRAITS, names_where
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import Algorithm

_OWN_FLAGS = frozenset(
    (
        *("--model-path", "--model", "--served-model-name", "--host", "--port", "--device", "--dtype"),
        *("--tp-size", "--tensor-parallel-size", "--max-total-tokens", "--kv-cache-dtype", "--page-size"),
        *("--attention-backend", "--max-running-requests", "--chunked-prefill-size", "--context-length"),
        *("--tool-call-parser", "--disable-radix-cache", "--trust-remote-code", "--tp", "--sampling-backend"),
        *("--disable-overlap-schedule", "--pp-size", "--pipeline-parallel-size", "--pp", "--attn-dp-size"),
        *("--attention-data-parallel-size", "--enable-dp-attention", "--uno-lora-path", "--nnodes", "--node-rank"),
        *("--dist-init-addr", "--nccl-init-addr", "--disaggregation-mode"),
    )
)
_EAGLE: tuple[Algorithm, ...] = ("eagle", "eagle3", "nextn")
_BUT_UNO = names_where(lambda traits: traits.sglang != "UNO")
_WITH_LORA = names_where(lambda traits: traits.lora)
_WORKS_WITH: dict[str, tuple[Algorithm, ...]] = {
    "--enable-custom-logit-processor": names_where(lambda traits: traits.logit_processors),
    "--enable-return-hidden-states": ("none",),
    "--enable-mixed-chunk": names_where(lambda traits: traits.mixed_chunk),
    "--enable-lora": _WITH_LORA,
    "--lora-paths": _WITH_LORA,
    "--enable-watermark": ("none", "ngram", *_EAGLE),
    "--enable-lmcache": ("none",),
    "--enable-unified-memory": ("none", *_EAGLE, "dflash", "dspark"),
    "--disaggregation-decode-enable-radix-cache": ("none", *_EAGLE, "dspark"),
    "--enable-deterministic-inference": _BUT_UNO,
    "--enable-strict-thinking": _BUT_UNO,
    "--prefill-attention-backend": _BUT_UNO,
    "--decode-attention-backend": _BUT_UNO,
}
_NOT_WITH_CHANGING_GRAPHS = frozenset(("--enable-two-batch-overlap", "--enable-pdmux"))


def extra_args_do_not_override(case: Case) -> Iterator[Finding]:
    """Flags that the launcher relies on must not be given twice; the others nobody checks."""
    field, flags = "runtime.extra_args", case.flags
    for flag in flags:
        if flag in _OWN_FLAGS or flag.startswith("--speculative-"):
            yield error(field, f"{flag} comes from the profile: remove it here")
    if flags:
        yield warning(field, f"no rule checks these: {' '.join(flags)}")


def extra_args_suit_the_algorithm(case: Case) -> Iterator[Finding]:
    """What SGLang refuses with an algorithm, switches off without an error, or ignores in the verify pass."""
    field, algorithm = "runtime.extra_args", case.spec.algorithm
    for flag in case.flags:
        able = _WORKS_WITH.get(flag, tuple(TRAITS))
        if algorithm not in able:
            yield error(
                field,
                f"{flag} does not work or is ignored with algorithm {algorithm}: remove it, or set algorithm "
                f"{', '.join(able)}",
            )
        tree_of_uno = algorithm == "uno" and case.spec.topk > 1
        if flag in _NOT_WITH_CHANGING_GRAPHS and (case.spec.adaptive or tree_of_uno):
            yield error(field, f"{flag} mixes with neither adaptive steps nor uno's trees: remove it, or those")
        if flag == "--enable-unified-memory" and case.spec.topk > 1:
            yield error(field, f"{flag} takes chains only: remove it, or set topk 1")


RULES: tuple[Rule, ...] = (extra_args_do_not_override, extra_args_suit_the_algorithm)
