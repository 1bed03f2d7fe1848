"""The part of `sgl_kernel.speculative` that SGLang's NGRAM worker imports on a CPU."""

from service.sglang_plugin.operators.tree import reconstruct_indices_from_tree_mask

__all__ = ["reconstruct_indices_from_tree_mask"]
