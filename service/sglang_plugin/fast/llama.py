"""SGLang's Llama-like models on the fast decoder: what is accepted, and the replaced `forward`."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers.aux_hidden_states import AuxHiddenStateList
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.models import llama, qwen2
from torch import Tensor

from service.sglang_plugin.fast.decoder import Attention, Decoder, DecoderLayer, Linear, Norm, tensor_eps
from service.sglang_plugin.fast.linear import packed_weight
from service.sglang_plugin.fast.onednn import PackedWeight

Family = tuple[Any, Any, Any, Any]
"""Exact classes (subclasses may compute something else): model, layer, attention, feed-forward."""

FAMILIES: tuple[Family, ...] = (
    (llama.LlamaModel, llama.LlamaDecoderLayer, llama.LlamaAttention, llama.LlamaMLP),
    (qwen2.Qwen2Model, qwen2.Qwen2DecoderLayer, qwen2.Qwen2Attention, qwen2.Qwen2MLP),
)


class FastForward:
    """The replaced `forward` of a LlamaModel: same arguments and results, without SGLang's residual stream."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.stock = model.forward
        self.decoder = build_decoder(model)
        self.attention = [layer.self_attn.attn for layer in model.layers]

    def __call__(
        self,
        input_ids: Tensor,
        positions: Tensor,
        forward_batch: Any,
        input_embeds: Tensor | None = None,
        pp_proxy_tensors: Any = None,
    ) -> Any:
        """See `LlamaModel.forward`. While weights are being updated (unpacked) SGLang's own code runs."""
        model = self.model
        if packed_weight(model.layers[0].self_attn.qkv_proj) is None or input_ids.numel() == 0:
            return self.stock(input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors)
        x = model.embed_tokens(input_ids) if input_embeds is None else input_embeds

        def attention(index: int) -> Attention:
            module = self.attention[index]
            return lambda query, key, value: module.forward(query, key, value, forward_batch)

        hidden, snapshots = self.decoder.forward(x, positions, attention, model.layers_to_capture)
        if not snapshots:
            return hidden
        captured = AuxHiddenStateList()
        for snapshot in snapshots:
            captured.capture(snapshot, owned=True)
        return hidden, captured


def build_decoder(model: Any) -> Decoder:
    """Collect the operands of an accepted model, whose linear layers are packed. Copies nothing."""
    rotary = model.layers[0].self_attn.rotary_emb
    layers = tuple(_layer(module) for module in model.layers)
    return Decoder(layers, _norm(model.norm), lambda: rotary.cos_sin_cache)


def _layer(module: Any) -> DecoderLayer:
    attention, mlp = module.self_attn, module.mlp
    return DecoderLayer(
        input_norm=_norm(module.input_layernorm),
        qkv=_linear(attention.qkv_proj),
        out=_linear(attention.o_proj),
        post_norm=_norm(module.post_attention_layernorm),
        gate_up=_linear(mlp.gate_up_proj),
        down=_linear(mlp.down_proj),
        heads=attention.num_heads,
        kv_heads=attention.num_kv_heads,
        dim=attention.head_dim,
    )


def _norm(module: Any) -> Norm:
    return Norm(module.weight.data, tensor_eps(module.variance_epsilon))


def _linear(module: Any) -> Linear:
    packed = packed_weight(module)
    if packed is None:
        raise ValueError(f"{type(module).__name__} is not packed")
    return Linear(packed, None if module.bias is None else module.bias.data)


def refusal(model: Any) -> str | None:
    """Why the decoder of a model must stay SGLang's own, or None. Called once, after loading."""
    family = next((f for f in FAMILIES if type(model) is f[0]), None)
    if family is None:
        return f"{type(model).__name__} is not a known Llama-like model"
    rotary = None
    for index, layer in enumerate(model.layers):
        reason = _layer_refusal(layer, family)
        if reason is None and rotary is not None and layer.self_attn.rotary_emb is not rotary:
            reason = "its rotary embedding differs from that of layer 0"
        if reason is not None:
            return f"layer {index}: {reason}"
        rotary = layer.self_attn.rotary_emb
    return _norm_refusal(model.norm)


def _layer_refusal(layer: Any, family: Family) -> str | None:
    if type(layer) is not family[1]:
        return f"{type(layer).__name__} is not {family[1].__name__}"
    attention, mlp = layer.self_attn, layer.mlp
    if type(attention) is not family[2] or type(mlp) is not family[3]:
        return f"{type(attention).__name__} or {type(mlp).__name__} is unknown"
    for module in (attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj):
        if not isinstance(getattr(module, "specserve_packed", None), PackedWeight):
            return f"{module.prefix or type(module).__name__} is not packed"
    return (
        _rotary_refusal(attention.rotary_emb)
        or _norm_refusal(layer.input_layernorm)
        or _norm_refusal(layer.post_attention_layernorm)
    )


def _rotary_refusal(rotary: Any) -> str | None:
    kind = type(rotary)
    if not isinstance(rotary, RotaryEmbedding) or kind.forward_native is not RotaryEmbedding.forward_native:
        return f"{kind.__name__} is not a plain rotary embedding"
    if not rotary.is_neox_style or rotary.rotary_dim != rotary.head_size or hasattr(rotary, "sin_cos_cache"):
        return "its rotary embedding is not of the Neox kind over whole heads"
    return None if rotary.cos_sin_cache.dtype == torch.float32 else "its rotary table is not float32"


def _norm_refusal(norm: Any) -> str | None:
    if type(norm) is not RMSNorm:
        return f"{type(norm).__name__} is not RMSNorm"
    if norm.variance_size_override is not None or norm.weight.dtype != torch.float32:
        return "its RMSNorm has a partial variance or is not float32"
    return None
