"""Profiles that must be refused: the field at fault, and a part of the sentence that says what to do."""

from __future__ import annotations

from service.profiles.schema import Profile
from tests.profiles.profiles import UNO, gpu, profile, with_draft

GPU = {"device": "cuda"}
PLAIN = {"algorithm": "none"}

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
    "cpu_machines": (profile(runtime={"nodes": 2}), "runtime.nodes", "set nodes 1"),
    "uneven_machines": (gpu(PLAIN, tp=2, nodes=4), "runtime.nodes", "set a divisor"),
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
    "unknown_eviction": (profile(kv={"eviction": "oracle"}), "kv.eviction", "known: none, snapkv, streaming"),
    "idle_budget": (profile(kv={"budget": 64}), "kv.budget", "set kv.eviction"),
    "small_budget": (profile(kv={"eviction": "streaming", "budget": 35}), "kv.budget", "set at least that"),
    "eviction_on_gpu": (
        profile(speculation=PLAIN, kv={"eviction": "streaming"}, runtime=GPU),
        "kv.eviction",
        "set none",
    ),
    "eviction_under_ngram": (
        profile(speculation={"algorithm": "ngram"}, kv={"eviction": "streaming"}),
        "kv.eviction",
        "set algorithm specserve or none",
    ),
    "eviction_in_mixed_passes": (
        profile(speculation=PLAIN, kv={"eviction": "streaming"}, runtime={"extra_args": ["--enable-mixed-chunk"]}),
        "runtime.extra_args",
        "remove --enable-mixed-chunk",
    ),
    "unknown_rotation": (
        profile(kv={"quantization": "int4", "rotation": "oracle"}),
        "kv.rotation",
        "known: hadamard, none, oscar",
    ),
    "oscar_without_calibration": (
        profile(kv={"quantization": "int2", "rotation": "oscar"}),
        "kv.calibration",
        "run `specserve calibrate kv`",
    ),
    "idle_calibration": (
        profile(kv={"quantization": "int2", "rotation": "hadamard", "calibration": "kv.pt"}),
        "kv.calibration",
        "remove it",
    ),
    "idle_rotation": (profile(kv={"rotation": "hadamard"}), "kv.rotation", "set quantization"),
    "quantization_on_gpu": (
        profile(speculation=PLAIN, kv={"quantization": "int8"}, runtime=GPU),
        "kv.quantization",
        "set none",
    ),
    "quantization_under_ngram": (
        profile(speculation={"algorithm": "ngram"}, kv={"quantization": "int8"}),
        "kv.quantization",
        "set algorithm specserve or none",
    ),
    "quantization_of_a_dtype": (profile(kv={"quantization": "int8", "dtype": "bfloat16"}), "kv.dtype", "set auto"),
    "window_and_prefixes": (
        profile(kv={"quantization": "int2", "full_recent": 64}),
        "kv.prefix_cache",
        "set kv.prefix_cache false",
    ),
    "window_below_a_step": (
        profile(kv={"quantization": "int2", "full_recent": 8, "prefix_cache": False}),
        "kv.full_recent",
        "set 12 or more",
    ),
    "idle_window": (profile(kv={"full_sinks": 4}), "kv.full_sinks", "set quantization"),
    "quantization_and_eviction": (
        profile(kv={"quantization": "int8", "eviction": "streaming"}),
        "kv.eviction",
        "or kv.quantization none",
    ),
    "uneven_groups": (profile(kv={"quantization": "int8", "group_size": 48}), "kv.group_size", "power of two"),
    "unknown_selector": (
        profile(speculation=PLAIN, kv={"selector": "oracle"}),
        "kv.selector",
        "known: none, quest",
    ),
    "idle_selector_page": (profile(kv={"selector_page": 8}), "kv.selector_page", "set kv.selector"),
    "few_pages": (
        profile(speculation=PLAIN, kv={"selector": "quest", "selector_tokens": 47}),
        "kv.selector_tokens",
        "set at least 48",
    ),
    "selection_on_gpu": (profile(speculation=PLAIN, kv={"selector": "quest"}, runtime=GPU), "kv.selector", "set none"),
    "selection_of_another_dtype": (
        profile(speculation=PLAIN, kv={"selector": "quest", "dtype": "bfloat16"}),
        "kv.dtype",
        "or kv.selector none",
    ),
    "selection_under_drafts": (profile(kv={"selector": "quest"}), "kv.selector", "set speculation.algorithm none"),
    "selection_and_eviction": (
        profile(speculation=PLAIN, kv={"selector": "quest", "eviction": "streaming"}),
        "kv.selector",
        "set kv.eviction none",
    ),
    "needless_report": (profile(kv={"quality_report": "summary.json"}), "kv.quality_report", "needs a proof"),
    "specserve_on_chains": (
        profile(runtime={**GPU, "attention_backend": "fa3"}),
        "runtime.attention_backend",
        "set triton or flashinfer",
    ),
    "specserve_gpu_pages": (profile(kv={"page_size": 16}, runtime=GPU), "kv.page_size", "set page_size 1"),
    "specserve_gpu_model": (
        profile(speculation={"drafter": "layer_skip"}, runtime=GPU),
        "speculation.drafter",
        "algorithm standalone",
    ),
    "specserve_gpus": (profile(runtime={**GPU, "tp": 2}), "runtime.tp", "set tp 1"),
    "unknown_drafter": (
        profile(speculation={"drafter": "oracle"}),
        "speculation.drafter",
        "goose, layer_skip, none, prompt_lookup, suffix",
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
    "adapter_missing": (gpu({"algorithm": "uno", "draft_tokens": 8}), "speculation.adapter", "LoRA"),
    "adapter_needless": (profile(speculation={"adapter": "a"}), "speculation.adapter", "set algorithm uno"),
    "uno_draft_model": (gpu({**UNO, "draft_model": "d"}), "speculation.draft_model", "in adapter"),
    "uno_steps_of_a_chain": (gpu({**UNO, "steps": 4}), "speculation.steps", "remove steps"),
    "uno_tree_too_small": (
        gpu({**UNO, "draft_tokens": 64, "topk": 4, "steps": 4}),
        "speculation.draft_tokens",
        "yield 13 drafts",
    ),
    "uno_tree_too_wide": (gpu({**UNO, "draft_tokens": 128, "topk": 32}), "speculation.draft_tokens", "2048"),
    "uno_tree_too_deep": (gpu({**UNO, "topk": 2, "steps": 8}), "speculation.draft_tokens", "lower steps"),
    "uno_on_cpu": (profile(speculation=UNO), "speculation.algorithm", "runtime.device cuda"),
    "uno_tp": (gpu(UNO, tp=2), "runtime.tp", "set tp 1"),
    "uno_backend": (gpu(UNO, attention_backend="flashinfer"), "runtime.attention_backend", "fa3 only"),
    "uno_kv": (gpu(UNO, kv={"dtype": "fp8_e5m2"}), "kv.dtype", "fp8_e4m3"),
    "uno_groups": (gpu(UNO, attention_dp=1, extra_args=["--enable-lora"]), "runtime.extra_args", "remove it"),
    "too_wide": (gpu({"algorithm": "ngram", "draft_tokens": 65}), "speculation.draft_tokens", "at most 64"),
    "block_topk": (gpu(with_draft("dflash", topk=2)), "speculation.topk", "a chain"),
    "block_steps": (gpu(with_draft("dspark", draft_tokens=8, steps=2)), "speculation.steps", "remove steps"),
    "dflash_without_draft": (gpu({"algorithm": "dflash"}), "speculation.draft_model", "name one"),
    "dflash_on_cpu": (profile(speculation=with_draft("dflash")), "speculation.algorithm", "needs a GPU"),
    "frozen_kv_on_cpu": (
        profile(speculation=with_draft("frozen_kv_mtp", draft_tokens=4)),
        "speculation.algorithm",
        "needs a GPU",
    ),
    "frozen_kv_tree": (
        gpu(with_draft("frozen_kv_mtp", draft_tokens=8, topk=2), attention_backend="fa3"),
        "speculation.topk",
        "attention_backend triton",
    ),
    "adaptive_ngram": (gpu({"algorithm": "ngram", "adaptive": True}), "speculation.adaptive", "eagle, eagle3 or nextn"),
    "adaptive_tree": (
        gpu(with_draft("eagle", draft_tokens=8, topk=4, adaptive=True)),
        "speculation.adaptive",
        "set topk 1",
    ),
    "adaptive_groups": (
        gpu(with_draft("eagle", draft_tokens=4, adaptive=True), tp=2, attention_dp=2),
        "speculation.adaptive",
        "attention_dp 1",
    ),
    "adaptive_stages": (gpu(with_draft("eagle", draft_tokens=4, adaptive=True), pp=2), "speculation.adaptive", "pp 1"),
    "adaptive_width": (
        gpu(with_draft("eagle", draft_tokens=5, adaptive=True)),
        "speculation.draft_tokens",
        "2, 4, 6 or 8",
    ),
    "two_drafters_of_one_name": (
        profile(speculation={"drafters": ["suffix", "suffix"], "controllers": ["ucb"]}),
        "speculation.drafters",
        "twice",
    ),
    "none_among_drafters": (
        profile(speculation={"drafters": ["suffix", "none"], "controllers": ["ucb"]}),
        "speculation.drafters",
        "remove none",
    ),
    "drafter_and_drafters": (
        profile(speculation={"drafter": "suffix", "drafters": ["prompt_lookup"]}),
        "speculation.drafter",
        "in place of drafter",
    ),
    "unknown_drafters": (
        profile(speculation={"drafters": ["suffix", "oracle"], "controllers": ["ucb"]}),
        "speculation.drafters",
        "unknown drafter 'oracle'",
    ),
    "unknown_controller": (
        profile(speculation={"controllers": ["roofline", "oracle"]}),
        "speculation.controllers",
        "fixed, roofline, ucb",
    ),
    "two_controllers_of_one_name": (
        profile(speculation={"controllers": ["ucb", "ucb"]}),
        "speculation.controllers",
        "twice",
    ),
    "idle_options": (
        profile(speculation={"drafter_options": {"suffix": {"longest": 8}}}),
        "speculation.drafter_options",
        "does not draft here",
    ),
    "idle_controller_options": (
        profile(speculation={"controller_options": {"ucb": {"scale": 1}}}),
        "speculation.controller_options",
        "does not control here",
    ),
    "controllers_in_an_impossible_order": (
        profile(speculation={"controllers": ["roofline", "dcut"]}),
        "speculation.controllers",
        "put one behind it",
    ),
    "drafters_of_ngram": (
        profile(speculation={"algorithm": "ngram", "drafters": ["suffix"]}),
        "speculation.drafters",
        "set algorithm specserve",
    ),
    "controllers_of_ngram": (
        profile(speculation={"algorithm": "ngram", "controllers": ["ucb"]}),
        "speculation.controllers",
        "set algorithm specserve",
    ),
    "sharing_of_none": (
        profile(speculation={"algorithm": "none", "sharing": "pool"}),
        "speculation.sharing",
        "remove it",
    ),
    "unknown_rule": (profile(speculation={"accept": "magic"}), "speculation.accept", "strict"),
    "options_of_strict": (
        profile(speculation={"accept_options": {"gate": 1.0}}),
        "speculation.accept_options",
        "remove them",
    ),
    "rule_of_ngram": (
        profile(speculation={"algorithm": "ngram", "accept": "asd"}),
        "speculation.accept",
        "set algorithm specserve",
    ),
    "cpu_stages": (profile(runtime={"pp": 2}), "runtime.pp", "set pp 1"),
    "stages_without_eagle": (gpu(with_draft("eagle3", draft_tokens=4), pp=2), "runtime.pp", "eagle"),
    "stages_and_groups": (
        gpu(with_draft("eagle", draft_tokens=4), pp=2, tp=2, attention_dp=2),
        "runtime.pp",
        "attention_dp 1",
    ),
    "groups_of_ngram": (
        gpu({"algorithm": "ngram"}, tp=2, attention_dp=2),
        "runtime.attention_dp",
        "set attention_dp 1",
    ),
    "groups_do_not_divide": (gpu(PLAIN, tp=4, attention_dp=3), "runtime.attention_dp", "divisor"),
    "backend_without_drafts": (
        gpu(with_draft("eagle", draft_tokens=4), attention_backend="flex_attention"),
        "runtime.attention_backend",
        "cannot verify",
    ),
    "chain_backend_tree": (
        gpu(with_draft("eagle", draft_tokens=8, topk=4), kv={"page_size": 1}, attention_backend="dsa"),
        "runtime.attention_backend",
        "set topk 1",
    ),
    "chain_backend_ngram": (
        gpu({"algorithm": "ngram"}, attention_backend="dsv4"),
        "runtime.attention_backend",
        "another algorithm",
    ),
    "chain_backend_tree_mha": (
        gpu(with_draft("eagle", draft_tokens=8, topk=4), attention_backend="trtllm_mha", kv={"page_size": 64}),
        "runtime.attention_backend",
        "set topk 1",
    ),
    "paged_tree_on_a_chain_backend": (
        gpu(with_draft("eagle", draft_tokens=8, topk=4), attention_backend="fa4", kv={"page_size": 128}),
        "kv.page_size",
        "page_size 1",
    ),
    "backend_pages": (gpu(PLAIN, attention_backend="trtllm_mha"), "kv.page_size", "16 or 32 or 64 or 128"),
    "chunk_inside_page": (
        profile(speculation=PLAIN, kv={"page_size": 48}),
        "runtime.chunked_prefill_tokens",
        "multiple",
    ),
    "processors_of_eagle": (
        gpu(with_draft("eagle", draft_tokens=4), extra_args=["--enable-custom-logit-processor"]),
        "runtime.extra_args",
        "is ignored",
    ),
    "overlap_with_adaptive": (
        gpu(with_draft("eagle", draft_tokens=4, adaptive=True), extra_args=["--enable-two-batch-overlap"]),
        "runtime.extra_args",
        "adaptive",
    ),
    "unified_memory_tree": (
        gpu(with_draft("eagle", draft_tokens=8, topk=4), extra_args=["--enable-unified-memory"]),
        "runtime.extra_args",
        "set topk 1",
    ),
    "context_too_long": (profile(target={"context_length": 9000}), "target.context_length", "8192"),
    "port_twice": (profile(runtime={"extra_args": ["--port=1"]}), "runtime.extra_args", "--port"),
    "algorithm_twice": (
        profile(runtime={"extra_args": ["--speculative-algorithm", "NGRAM"]}),
        "runtime.extra_args",
        "remove it here",
    ),
}
