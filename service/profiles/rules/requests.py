"""Rules about requests: what an algorithm answers otherwise than plain decoding would, or refuses.

From SGLang 0.5.23: `speculative/eagle_utils.py` `eagle_sample` (penalties of the step before, no `min_p`; NGRAM,
STANDALONE and Frozen-KV MTP verify with it too), `speculative/dflash_utils.py` (the same for DFLASH and DSPARK),
`speculative/uno_validation.py` (what UNO refuses), `speculative/ngram_worker.py` (one corpus).
On a CPU our plugin verifies in place of `eagle_sample`, which knows greedy decoding only there; it draws with
temperature, `top_k`, `top_p` and `min_p`.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.rules.finding import Case, Finding, Rule, warning

_FIELD = "speculation.algorithm"
_EXACT = ("none", "specserve", "uno")


def ngram_corpus_is_shared(case: Case) -> Iterator[Finding]:
    """SGLang's corpus knows no clients."""
    if case.spec.algorithm == "ngram":
        yield warning(
            _FIELD,
            "SGLang's ngram corpus is shared by all requests: speed reveals what other clients wrote, and "
            "repeated benchmarks get faster; where clients must not meet, use specserve",
        )


def penalties_are_approximate(case: Case) -> Iterator[Finding]:
    """SGLang applies a step's penalties to all its draft tokens alike."""
    if case.spec.algorithm not in _EXACT:
        yield warning(
            _FIELD,
            f"{case.spec.algorithm} is lossless but for requests with penalties or min_new_tokens, whose counts lag "
            "by a step: where that matters use specserve, which counts the tokens of each draft",
        )


def min_p_is_ignored(case: Case) -> Iterator[Finding]:
    """SGLang's verify pass filters by `top_k` and `top_p` alone."""
    if not case.on_cpu and case.spec.algorithm not in _EXACT:
        yield warning(
            _FIELD,
            f"{case.spec.algorithm} ignores min_p after the first token: send such requests to a pool without it",
        )


def uno_refuses_requests(case: Case) -> Iterator[Finding]:
    """UNO answers these with an error."""
    if case.spec.algorithm == "uno":
        yield warning(
            _FIELD,
            "uno refuses requests with grammar (JSON schemas, forced tools), logprobs, penalties, min_new_tokens, "
            "min_p or logit_bias: give those another pool",
        )


RULES: tuple[Rule, ...] = (
    ngram_corpus_is_shared,
    penalties_are_approximate,
    min_p_is_ignored,
    uno_refuses_requests,
)
