"""Where eviction enters SGLang 0.5.23; nothing of it is there for pools without a policy."""

from __future__ import annotations

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from service.sglang_plugin.eviction.evictor import Evictor
from service.sglang_plugin.eviction.poison import poison_freed


def install(evictor: Evictor) -> None:
    """Register the evictor's hooks. Mutates SGLang's registry."""
    request = "sglang.srt.managers.schedule_batch.Req"
    processor = "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"
    checker = "sglang.srt.managers.scheduler_components.invariant_checker"
    for target, hook, kind in (
        (f"{request}.init_next_round_input", evictor.keep_out_of_tree, HookType.BEFORE),
        (f"{request}._compute_max_prefix_len", evictor.limit_prefix, HookType.AROUND),
        ("sglang.srt.managers.schedule_batch.ScheduleBatch.prepare_for_extend", evictor.enter, HookType.AFTER),
        (f"{processor}.process_batch_result_prefill", evictor.choose, HookType.AFTER),
        (f"{processor}.process_batch_result_decode", evictor.choose, HookType.AFTER),
        ("sglang.srt.mem_cache.base_prefix_cache.BasePrefixCache.free_kv_row", evictor.free_held, HookType.AROUND),
        (f"{checker}.kv_private_tokens", evictor.private_tokens, HookType.AFTER),
        ("sglang.srt.mem_cache.memory_pool.ReqToTokenPool.free", evictor.forget, HookType.BEFORE),
    ):
        HookRegistry.register(target, hook, kind)
    if evictor.config.poison:
        allocator = "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator"
        HookRegistry.register(f"{allocator}.free", poison_freed, HookType.BEFORE)
