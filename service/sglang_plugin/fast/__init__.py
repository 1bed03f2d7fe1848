"""Fast float32 paths for a CPU: packed linear layers, fused norm, rope and activation, a lean decoder."""

from __future__ import annotations


def install() -> None:
    """Register the hooks. Called once a process by the plugin's `load`, when the device is the CPU."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from service.sglang_plugin.fast import norm, prepare, rope, weights

    load = "sglang.srt.model_executor.model_runner.ModelRunner.load_model"
    HookRegistry.register(load, prepare.after_load_model, HookType.AFTER)
    HookRegistry.register("sglang.srt.layers.layernorm.RMSNorm.forward_native", norm.rms_norm_native, HookType.AROUND)
    HookRegistry.register(
        "sglang.srt.layers.rotary_embedding.base.RotaryEmbedding.forward_native",
        rope.rope_native,
        HookType.AROUND,
    )
    for target in weights.TARGETS:
        HookRegistry.register(target, weights.with_plain_weights, HookType.AROUND)
