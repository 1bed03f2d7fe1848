"""Readers and writers of a model's weights see plain tensors: packed layers are restored for that call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.sglang_plugin.fast.linear import packed_weight

UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater.WeightUpdater."
EXPORTER = "sglang.srt.model_executor.model_runner_components.weight_exporter.WeightExporter."
TARGETS = (
    UPDATER + "update_weights_from_tensor",
    UPDATER + "load_weights_from_distributed",
    UPDATER + "update_weights_from_ipc",
    EXPORTER + "get_weights_by_name",
    EXPORTER + "save_sharded_model",
    EXPORTER + "save_remote_model",
    EXPORTER + "send_weights_to_remote_instance",
    "sglang.srt.model_executor.model_runner.ModelRunner.check_weights",
)
"""Updates from disk and update sessions need no hook: SGLang restores and packs each layer by its method."""


def with_plain_weights(original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
    """AROUND hook: unpack, call, pack again, also after an error. Blocks while the weights are copied twice."""
    model = owner.get_model() if hasattr(owner, "get_model") else owner.model
    packed = [module for module in model.modules() if packed_weight(module) is not None]
    for module in packed:
        module.quant_method.restore_weights_before_loading(module)
    try:
        return original(owner, *args, **kwargs)
    finally:
        for module in packed:
            module.quant_method.process_weights_after_loading(module)
