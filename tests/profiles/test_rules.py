from __future__ import annotations

import pytest

from service.profiles.facts import Facts, ModelShape, model_shape
from service.profiles.rules import RULES, check
from service.profiles.schema import Profile
from tests.profiles.profiles import POSSIBLE, profile, with_draft

GPU = {"device": "cuda"}
PLAIN = {"algorithm": "none"}
SMOLLM2 = ModelShape(layers=30, kv_heads=3, head_dim=64, context_length=8192)
FACTS = Facts(drafters=("none", "prompt_lookup"), memory_bytes=8 * 2**30, target=SMOLLM2)

# profile, field at fault, part of the message
IMPOSSIBLE: dict[str, tuple[Profile, str, str]] = {
    "no_draft_model": (
        profile(speculation={"algorithm": "standalone", "draft_tokens": 4}),
        "speculation.draft_model",
        "name one",
    ),
    "needless_draft_model": (
        profile(speculation={"algorithm": "ngram", "draft_model": "d"}),
        "speculation.draft_model",
        "remove it",
    ),
    "needless_topk": (profile(speculation={"topk": 2}), "speculation.topk", "remove topk"),
    "needless_steps": (
        profile(speculation={"algorithm": "none", "steps": 2}),
        "speculation.steps",
        "remove steps",
    ),
    "chain_mismatch": (
        profile(speculation=with_draft("standalone", draft_tokens=8, steps=3)),
        "speculation.draft_tokens",
        "set 4",
    ),
    "tree_too_small": (
        profile(speculation=with_draft("eagle", draft_tokens=8, topk=2, steps=1)),
        "speculation.draft_tokens",
        "yield 2 drafts",
    ),
    "cpu_pages": (profile(kv={"page_size": 16}), "kv.page_size", "page_size 1"),
    "ngram_pages": (
        profile(speculation={"algorithm": "ngram"}, kv={"page_size": 16}, runtime=GPU),
        "kv.page_size",
        "flashinfer",
    ),
    "tree_pages": (
        profile(speculation=with_draft("eagle3", topk=4), kv={"page_size": 64}, runtime=GPU),
        "kv.page_size",
        "fa3",
    ),
    "specserve_on_gpu": (profile(runtime=GPU), "speculation.algorithm", "CPU engines only"),
    "unknown_drafter": (
        profile(speculation={"drafter": "oracle"}),
        "speculation.drafter",
        "none, prompt_lookup",
    ),
    "cpu_tp": (profile(runtime={"tp": 2}), "runtime.tp", "set tp 1"),
    "gpu_threads": (profile(speculation=PLAIN, runtime={**GPU, "threads": 2}), "runtime.threads", "remove it"),
    "cpu_backend_on_gpu": (
        profile(speculation=PLAIN, runtime={**GPU, "attention_backend": "specserve_cpu"}),
        "runtime.attention_backend",
        "CPU only",
    ),
    "gpu_backend_on_cpu": (
        profile(runtime={"attention_backend": "fa3"}),
        "runtime.attention_backend",
        "plain CPU",
    ),
    "drafts_on_torch_native": (
        profile(runtime={"attention_backend": "torch_native"}),
        "runtime.attention_backend",
        "cannot verify",
    ),
    "cpu_fp8": (profile(kv={"dtype": "fp8_e5m2"}), "kv.dtype", "needs a GPU"),
    "float32_kv": (
        profile(speculation=PLAIN, target={"dtype": "bfloat16"}, kv={"dtype": "float32"}, runtime=GPU),
        "kv.dtype",
        "float32 model",
    ),
    "context_too_long": (profile(target={"context_length": 9000}), "target.context_length", "8192"),
    "port_twice": (profile(runtime={"extra_args": ["--port=1"]}), "runtime.extra_args", "--port"),
    "algorithm_twice": (
        profile(runtime={"extra_args": ["--speculative-algorithm", "NGRAM"]}),
        "runtime.extra_args",
        "remove it here",
    ),
}
RISKY: dict[str, tuple[Profile, str]] = {
    "shared_corpus": (POSSIBLE["ngram"], "speculation.algorithm"),
    "lossy_kv": (POSSIBLE["bfloat16_kv"], "kv.dtype"),
    "rounding": (POSSIBLE["gpu"], "target.dtype"),
    "cpu_bfloat16": (profile(target={"dtype": "bfloat16"}), "target.dtype"),
    "gpu_float32": (profile(speculation=PLAIN, runtime=GPU), "target.dtype"),
    "large_pool": (profile(kv={"max_tokens": 100_000}), "kv.max_tokens"),
    "small_pool": (profile(kv={"max_tokens": 4096}), "kv.max_tokens"),
    "unchecked": (POSSIBLE["extra"], "runtime.extra_args"),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_possible_profiles_have_no_error(name: str) -> None:
    assert [found for found in check(POSSIBLE[name], FACTS) if found.level == "error"] == []


def test_default_profile_has_no_finding() -> None:
    assert check(Profile(), FACTS) == ()


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_profiles_have_one_error_that_helps(name: str) -> None:
    impossible, field, message = IMPOSSIBLE[name]
    errors = [found for found in check(impossible, FACTS) if found.level == "error"]
    assert [found.field for found in errors] == [field]
    assert message in errors[0].message


@pytest.mark.parametrize("name", RISKY)
def test_risky_profiles_warn(name: str) -> None:
    risky, field = RISKY[name]
    found = check(risky, FACTS)
    assert {finding.level for finding in found} == {"warning"}
    assert field in {finding.field for finding in found}


def test_every_rule_speaks_in_some_test() -> None:
    from service.profiles.rules import Case

    judged = [*(case for case, *_ in IMPOSSIBLE.values()), *(case for case, _ in RISKY.values())]
    silent = [rule.__name__ for rule in RULES if not any(list(rule(Case(case, FACTS))) for case in judged)]
    assert silent == []


def test_errors_come_first() -> None:
    levels = [found.level for found in check(profile(target={"dtype": "bfloat16"}, runtime={"tp": 2}))]
    assert levels == sorted(levels, key=lambda level: level != "error")
    assert levels[0] == "error"


def test_unknown_facts_stay_silent() -> None:
    assert check(profile(speculation={"drafter": "oracle"}, kv={"max_tokens": 10**9})) == ()


def test_a_draft_model_counts_in_the_pool() -> None:
    of = profile(speculation=with_draft("standalone", draft_tokens=4), kv={"max_tokens": 60_000})
    alone = check(of, FACTS)
    both = check(of, Facts(memory_bytes=FACTS.memory_bytes, target=SMOLLM2, draft=SMOLLM2))
    assert "kv.max_tokens" not in {found.field for found in alone}
    assert "kv.max_tokens" in {found.field for found in both}


def test_shape_from_a_model_config() -> None:
    config = {
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_size": 576,
        "max_position_embeddings": 8192,
    }
    assert model_shape(config) == SMOLLM2
    assert SMOLLM2.kv_bytes_per_token("float32") == 46080
    assert model_shape({"num_hidden_layers": 2}) is None
