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


# name -> a profile that must have no error
POSSIBLE: dict[str, Profile] = {
    "default": Profile(),
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
    "gpu": profile(
        target={"dtype": "bfloat16"},
        speculation=with_draft("standalone", draft_tokens=4),
        runtime={"device": "cuda", "tp": 2},
    ),
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
    "extra": profile(runtime={"extra_args": ["--random-seed", "1"]}),
}
