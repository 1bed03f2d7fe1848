"""Where page selection enters SGLang 0.5.23; nothing of it is there for pools without a selector."""

from __future__ import annotations

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from service.sglang_plugin.selection.reader import PageReader


def install(reader: PageReader) -> None:
    """Register the reader's hooks. Mutates SGLang's registry."""
    batch = "sglang.srt.managers.schedule_batch.ScheduleBatch"
    HookRegistry.register(f"{batch}.prepare_for_extend", reader.enter, HookType.AFTER)
    HookRegistry.register("sglang.srt.mem_cache.memory_pool.ReqToTokenPool.free", reader.forget, HookType.BEFORE)
