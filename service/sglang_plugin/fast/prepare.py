"""After SGLang has loaded a model on the CPU: pack its weights and replace its decoder, or say why not."""

from __future__ import annotations

import logging
from typing import Any

from sglang.srt.layers.linear import LinearBase
from torch import nn

from service.sglang_plugin.fast import embedding, hugepages, linear, llama
from service.sglang_plugin.fast.onednn import unavailable_reason

logger = logging.getLogger(__name__)


def after_load_model(result: Any, runner: Any) -> None:
    """AFTER hook of `ModelRunner.load_model`, of targets and drafts. Mutates `runner.model`; logs each decision."""
    del result
    reason = unavailable_reason() or _runner_refusal(runner)
    if reason is not None:
        logger.warning("fast CPU path off: %s", reason)
        return
    model = runner.model
    packed, left = pack_linears(model)
    head = pack_head(model, shared_elsewhere=_head_is_shared(runner.server_args))
    logger.info("fast CPU path: %d linear layers packed, %d left plain; output head: %s", packed, left, head)
    log_huge_pages(model)
    replace_decoder(model)


def _runner_refusal(runner: Any) -> str | None:
    args = runner.server_args
    if runner.device != "cpu":
        return f"the model is on {runner.device}"
    if args.tp_size > 1 or args.pp_size > 1 or args.dp_size > 1:
        return "it is written for one rank (tp, pp and dp sizes of 1)"
    if args.enable_lora or args.lora_paths:
        return "LoRA adapters read the plain weights"
    if args.cpu_offload_gb:
        return "weights are offloaded (--cpu-offload-gb)"
    return None


def _head_is_shared(args: Any) -> bool:
    """Whether a draft model takes the target's embedding and head as plain tensors (EAGLE and its kin)."""
    return str(args.speculative_algorithm or "NONE").upper() not in (
        "NONE",
        "NGRAM",
        "SPECSERVE",
        "STANDALONE",
    )


def pack_linears(model: nn.Module) -> tuple[int, int]:
    """Pack every plain float32 linear layer. Returns how many were packed and how many were left alone."""
    packed = left = 0
    for name, module in model.named_modules():
        if not isinstance(module, LinearBase):
            continue
        reason = linear.packable_reason(module)
        if reason is not None:
            logger.debug("%s is not packed: %s", name, reason)
            left += 1
            continue
        module.quant_method = linear.PackedLinearMethod()
        module.quant_method.process_weights_after_loading(module)
        packed += 1
    return packed, left


def pack_head(model: Any, shared_elsewhere: bool) -> str:
    """Pack the output head, tied or not. Returns what was done, in words for the log."""
    head = getattr(model, "lm_head", None)
    if head is None or not hasattr(head, "quant_method"):
        return "none"
    reason = embedding.packable_reason(head)
    if shared_elsewhere:
        reason = "a draft model shares it"
    if reason is not None:
        return f"plain ({reason})"
    tied = head is getattr(getattr(model, "model", None), "embed_tokens", None)
    method = embedding.PackedEmbeddingMethod(read_rows=tied)
    head.quant_method = method
    method.process_weights_after_loading(head)
    if linear.packed_weight(head) is None:
        return "plain (oneDNN's layout cannot be read by rows)"
    return "packed, its rows read in place as the embedding" if tied else "packed"


def log_huge_pages(model: nn.Module) -> None:
    """Move the packed weights to huge pages where the kernel can, and log how much of them."""
    weights = [linear.packed_weight(module) for module in model.modules()]
    result = hugepages.collapse([weight.region() for weight in weights if weight is not None])
    if result.reason is not None:
        logger.info("packed weights on ordinary pages: %s", result.reason)
    else:
        logger.info("packed weights: %d of %d MB on huge pages", result.done >> 20, result.asked >> 20)


def replace_decoder(model: Any) -> None:
    """Give `model.model` the fast `forward` if every layer is understood. Mutates it; logs the decision."""
    inner: Any = getattr(model, "model", None)
    reason = "there is no inner model" if inner is None else llama.refusal(inner)
    if reason is not None:
        logger.info("decoder: SGLang's own (%s)", reason)
        return
    inner.forward = llama.FastForward(inner)
    logger.info("decoder: fast path, %d layers", len(inner.layers))
