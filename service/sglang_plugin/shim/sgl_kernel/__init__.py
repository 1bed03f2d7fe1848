"""Stands in for SGLang's CUDA-only `sgl_kernel` wheel on a CPU: the operators that SGLang imports there.

The engine launcher puts this folder first on PYTHONPATH, so every SGLang process finds it under the name
that SGLang imports. The operators themselves live in `service.sglang_plugin.operators`.
"""

from service.sglang_plugin.operators.kv_rows import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
)
from service.sglang_plugin.operators.tree import (
    build_tree_kernel_efficient_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
    verify_tree_greedy_cpu,
)

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
