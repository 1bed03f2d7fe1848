from __future__ import annotations

from dataclasses import replace

import pytest

from service.cli_trial import trial
from service.profiles.facts import Facts, ModelShape, model_shape
from service.profiles.rules import RULES, check, pairs
from service.profiles.schema import Profile
from tests.profiles.impossible import IMPOSSIBLE
from tests.profiles.profiles import POSSIBLE, UNO, gpu, profile, with_draft

GPU = {"device": "cuda"}
PLAIN = {"algorithm": "none"}
SMOLLM2 = ModelShape(layers=30, kv_heads=3, head_dim=64, context_length=8192)
FACTS = Facts(
    drafters=("goose", "layer_skip", "none", "prompt_lookup", "suffix"),
    controllers=("dcut", "fixed", "roofline", "ucb"),
    accept_rules=("strict", "asd"),
    kv_eviction=("none", "streaming", "snapkv"),
    page_selectors=("none", "quest"),
    kv_rotations=("none", "hadamard", "oscar"),
    memory_bytes=8 * 2**30,
    trial=trial,
    target=SMOLLM2,
)

RISKY: dict[str, tuple[Profile, str]] = {
    "shared_corpus": (POSSIBLE["ngram"], "speculation.algorithm"),
    "lossy_kv": (POSSIBLE["bfloat16_kv"], "kv.dtype"),
    "rounding": (POSSIBLE["gpu"], "target.dtype"),
    "cpu_bfloat16": (profile(target={"dtype": "bfloat16"}), "target.dtype"),
    "gpu_float32": (profile(speculation=PLAIN, runtime=GPU), "target.dtype"),
    "large_pool": (profile(kv={"max_tokens": 100_000}), "kv.max_tokens"),
    "small_pool": (profile(kv={"max_tokens": 4096}), "kv.max_tokens"),
    "padded_trees": (POSSIBLE["gpu_specserve"], "speculation.algorithm"),
    "uno_requests": (POSSIBLE["gpu_uno"], "speculation.algorithm"),
    "min_p": (POSSIBLE["gpu_dflash"], "speculation.algorithm"),
    "shared_pool": (POSSIBLE["several_drafters"], "speculation.sharing"),
    "lossy_acceptance": (profile(speculation={"accept": "asd"}), "speculation.accept"),
    "one_arm_of_two": (profile(speculation={"drafters": ["suffix", "prompt_lookup"]}), "speculation.controllers"),
    "unproven_eviction": (POSSIBLE["eviction"], "kv.eviction"),
    "unproven_quantization": (POSSIBLE["quantization"], "kv.quantization"),
    "two_bits_for_all": (profile(kv={"quantization": "int2"}), "kv.full_recent"),
    "unproven_selection": (POSSIBLE["selection"], "kv.selector"),
    "machines": (POSSIBLE["gpu_two_machines"], "runtime.nodes"),
    "adaptive": (POSSIBLE["gpu_eagle_adaptive"], "speculation.adaptive"),
    "unknown_block": (POSSIBLE["gpu_dspark"], "speculation.draft_tokens"),
    "stages": (POSSIBLE["gpu_eagle_stages"], "runtime.pp"),
    "dflash_groups": (POSSIBLE["gpu_dflash_groups"], "runtime.attention_dp"),
    "dspark_groups": (gpu(with_draft("dspark", draft_tokens=8), tp=4, attention_dp=2), "runtime.attention_dp"),
    "frozen_kv_groups": (
        gpu(with_draft("frozen_kv_mtp", draft_tokens=4), tp=2, attention_dp=2),
        "runtime.attention_dp",
    ),
    "block_draft_backend": (
        gpu(with_draft("dflash"), kv={"page_size": 64}, attention_backend="flashmla"),
        "runtime.attention_backend",
    ),
    "uno_pages": (gpu({**UNO, "topk": 2}, kv={"page_size": 16}), "kv.page_size"),
    "fa4_pages": (gpu(PLAIN, kv={"page_size": 16}, attention_backend="fa4"), "kv.page_size"),
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

    profiles = [*(case for case, *_ in IMPOSSIBLE.values()), *(case for case, _ in RISKY.values())]
    judged = [Case(of, facts) for of in profiles for facts in (FACTS, replace(FACTS, role="decode"))]
    rules = [rule for rule in RULES if rule not in pairs.RULES]
    silent = [rule.__name__ for rule in rules if not any(list(rule(case)) for case in judged)]
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


def test_a_packed_pool_takes_less_memory() -> None:
    warned = [
        any(finding.field == "kv.max_tokens" for finding in check(profile(kv={"max_tokens": 100_000, **kv}), FACTS))
        for kv in ({}, {"quantization": "int4"})
    ]
    assert warned == [True, False]
