"""The table of profiles that the tests of commands and rules share."""

from __future__ import annotations

from typing import Any

from service.profiles.schema import Profile


def profile(**sections: dict[str, Any]) -> Profile:
    """A profile from plain sections, validated as a configuration file's would be."""
    return Profile.model_validate(sections)


def with_draft(algorithm: str, **options: Any) -> dict[str, Any]:
    """A speculation section with a draft model."""
    return {"algorithm": algorithm, "draft_model": "/models/draft", **options}


def gpu(speculation: dict[str, Any], kv: dict[str, Any] | None = None, **runtime: Any) -> Profile:
    """A bfloat16 profile on a GPU."""
    return profile(
        target={"dtype": "bfloat16"}, speculation=speculation, kv=kv or {}, runtime={"device": "cuda", **runtime}
    )


UNO: dict[str, Any] = {"algorithm": "uno", "adapter": "/models/adapter", "draft_tokens": 8}

# name -> a profile that must have no error
POSSIBLE: dict[str, Profile] = {
    "default": Profile(),
    "eviction": profile(kv={"eviction": "snapkv", "budget": 256, "eviction_options": {"kernel": 5}}),
    "quantization": profile(kv={"quantization": "int4", "rotation": "hadamard"}),
    "oscar": profile(kv={"quantization": "int2", "rotation": "oscar", "calibration": "kv.pt"}),
    "window": profile(
        kv={
            "quantization": "int2",
            "rotation": "hadamard",
            "full_sinks": 4,
            "full_recent": 64,
            "dtype": "bfloat16",
            "prefix_cache": False,
        }
    ),
    "selection": profile(speculation={"algorithm": "none"}, kv={"selector": "quest", "selector_tokens": 256}),
    "plain": profile(speculation={"algorithm": "none"}),
    "none_drafter": profile(speculation={"drafter": "none"}),
    "ngram": profile(speculation={"algorithm": "ngram", "draft_tokens": 8}),
    "standalone_chain": profile(speculation=with_draft("standalone", draft_tokens=4)),
    "standalone_tree": profile(speculation=with_draft("standalone", draft_tokens=6, topk=2, steps=3)),
    "eagle3_tree": profile(speculation=with_draft("eagle3", draft_tokens=8, topk=4)),
    "everything_set": profile(
        target={"context_length": 4096, "trust_remote_code": True, "tool_call_parser": "qwen"},
        kv={"max_tokens": 8192, "prefix_cache": False, "dtype": "float32"},
        runtime={"threads": 2, "max_running_requests": 4, "chunked_prefill_tokens": 512},
    ),
    "torch_native": profile(
        speculation={"algorithm": "none"}, runtime={"attention_backend": "torch_native"}, kv={"page_size": 16}
    ),
    "bfloat16_kv": profile(kv={"dtype": "bfloat16"}),
    "gpu_specserve": gpu({"drafter": "suffix"}),
    "gpu": profile(
        target={"dtype": "bfloat16"},
        speculation=with_draft("standalone", draft_tokens=4),
        runtime={"device": "cuda", "tp": 2},
    ),
    "gpu_two_machines": gpu({"algorithm": "none"}, tp=16, nodes=2),
    "gpu_plain_fp8": profile(
        target={"dtype": "bfloat16", "model": "org/model"},
        speculation={"algorithm": "none"},
        kv={"dtype": "fp8_e4m3", "page_size": 16, "max_tokens": 100000},
        runtime={"device": "cuda", "attention_backend": "fa3"},
    ),
    "gpu_eagle3": profile(
        target={"dtype": "bfloat16"},
        speculation=with_draft("eagle3", draft_tokens=8, topk=4, steps=5),
        runtime={"device": "cuda"},
    ),
    "gpu_ngram_paged": profile(
        target={"dtype": "float16"},
        speculation={"algorithm": "ngram"},
        kv={"page_size": 16},
        runtime={"device": "cuda", "attention_backend": "flashinfer"},
    ),
    "several_drafters": profile(
        speculation={
            "drafters": ["suffix", "prompt_lookup"],
            "controllers": ["roofline", "ucb"],
            "drafter_options": {"suffix": {"longest": 32, "decay": 0.5, "prompt": True}},
            "sharing": "pool",
        }
    ),
    "nextn_heads_on_cpu": profile(speculation={"algorithm": "nextn", "draft_tokens": 4}),
    "gpu_eagle_chain": gpu(with_draft("eagle", draft_tokens=4), kv={"page_size": 64}, attention_backend="trtllm_mha"),
    "gpu_eagle_paged_tree": gpu(
        with_draft("eagle", draft_tokens=8, topk=4), kv={"page_size": 16}, attention_backend="flashinfer"
    ),
    "gpu_eagle_adaptive": gpu(with_draft("eagle3", draft_tokens=4, adaptive=True)),
    "gpu_eagle_stages": gpu(with_draft("eagle", draft_tokens=4), pp=2),
    "gpu_nextn_heads": gpu({"algorithm": "nextn", "draft_tokens": 4}, tp=8, attention_dp=4),
    "gpu_nextn_draft": gpu(with_draft("nextn", draft_tokens=4)),
    "gpu_frozen_kv": gpu(with_draft("frozen_kv_mtp", draft_tokens=4)),
    "gpu_frozen_kv_tree": gpu(with_draft("frozen_kv_mtp", draft_tokens=8, topk=2), attention_backend="triton"),
    "gpu_dflash": gpu(with_draft("dflash", draft_tokens=16), kv={"page_size": 64}, attention_backend="fa3"),
    "gpu_dflash_groups": gpu(with_draft("dflash", draft_tokens=16), tp=4, attention_dp=2),
    "gpu_dspark": gpu(with_draft("dspark", draft_tokens=8)),
    "gpu_dspark_heads": gpu({"algorithm": "dspark", "draft_tokens": 8}, tp=4, attention_dp=4),
    "gpu_uno": gpu(UNO),
    "gpu_uno_tree": gpu({**UNO, "draft_tokens": 16, "topk": 4}),
    "gpu_uno_wide_tree": gpu({**UNO, "draft_tokens": 128, "topk": 16}, attention_backend="fa3"),
    "gpu_plain_stages": gpu({"algorithm": "none"}, pp=2, tp=2, attention_dp=2),
    "gpu_processors": gpu(with_draft("dflash", draft_tokens=16), extra_args=["--enable-custom-logit-processor"]),
    "extra": profile(runtime={"extra_args": ["--random-seed", "1"]}),
}
