"""Where quantization enters SGLang 0.5.23; nothing of it is there for pools without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from service.sglang_plugin.quantization.config import QuantizationConfig


def install(config: QuantizationConfig) -> None:
    """Register the pool and what a token costs in it. Mutates SGLang's registry."""

    def pool_class(original: Callable[..., type], configurator: Any, *, kind: str, default: type) -> type:
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        from service.sglang_plugin.quantization.pool import PackedKvPool

        if kind != "mha":
            return original(configurator, kind=kind, default=default)
        if default is not MHATokenToKVPool:
            raise NotImplementedError("only plain multi-head KV caches are quantized; set kv.quantization none")
        return type("PackedKvPool", (PackedKvPool,), {"config": config})

    def cell_size(size: int, configurator: Any, kvc: Any, num_layers: int) -> int:
        from service.sglang_plugin.quantization.pool import packed_size

        del configurator, num_layers
        dims = kvc.model_config.head_dim, kvc.model_config.v_head_dim
        return packed_size(config, size, dims, kvc.kv_cache_dtype.itemsize)

    module = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator"
    HookRegistry.register(f"{module}._resolve_kv_pool_class", pool_class, HookType.AROUND)
    sizes = "sglang.srt.model_executor.pool_configurator.DefaultPoolConfigurator"
    HookRegistry.register(f"{sizes}._compute_cell_size", cell_size, HookType.AFTER)
