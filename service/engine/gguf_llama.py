"""Read a GGUF file of the Llama family and give back Hugging Face tensors, config and tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]

_PLAIN_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")


def hf_name(gguf_name: str) -> str:
    """The Hugging Face name of a GGUF tensor. Raises ValueError for one that Llama does not have."""
    if match := _LAYER_TENSOR.fullmatch(gguf_name):
        layer, part, kind = match.groups()
        if part in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
    else:
        part, _, kind = gguf_name.rpartition(".")
        if part in _PLAIN_NAMES:
            return f"{_PLAIN_NAMES[part]}.{kind}"
    raise ValueError(f"tensor {gguf_name!r} is not part of a Llama model")


def undo_rope_permutation(weights: Weights, heads: int) -> Weights:
    """Rows of a q or k projection in Hugging Face's order.

    llama.cpp interleaves the two halves of each head, because it rotates neighbouring pairs.
    """
    half = weights.shape[0] // heads // 2
    paired = weights.reshape(heads, half, 2, *weights.shape[1:])
    return paired.swapaxes(1, 2).reshape(weights.shape)


@dataclass(frozen=True)
class Tensor:
    """One dequantized tensor under its Hugging Face name."""

    name: str
    data: Weights


class GgufLlama:
    """A memory-mapped GGUF file. Raises ValueError when the file holds another architecture."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self._reader = GGUFReader(path)
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise ValueError(f"{path.name} holds a {architecture!r} model; only Llama models can be converted")

    def field(self, key: str) -> Any:
        """The value of a metadata key, or None when the file lacks it."""
        found = self._reader.get_field(key)
        return None if found is None else found.contents()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Hugging Face tensor names and shapes, in file order."""
        return {hf_name(t.name): tuple(int(n) for n in reversed(t.shape)) for t in self._reader.tensors}

    def tensors(self) -> Iterator[Tensor]:
        """Dequantize one tensor at a time, in the order of `shapes`."""
        from gguf.quants import dequantize

        heads = int(self.field("llama.attention.head_count"))
        kv_heads = int(self.field("llama.attention.head_count_kv"))
        for tensor in self._reader.tensors:
            name = hf_name(tensor.name)
            data = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
            if ".q_proj." in name:
                data = undo_rope_permutation(data, heads)
            elif ".k_proj." in name:
                data = undo_rope_permutation(data, kv_heads)
            yield Tensor(name, np.ascontiguousarray(data))

    def config(self) -> dict[str, Any]:
        """The content of Hugging Face's config.json."""
        heads = int(self.field("llama.attention.head_count"))
        hidden = int(self.field("llama.embedding_length"))
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(self.field("tokenizer.ggml.tokens")),
            "hidden_size": hidden,
            "intermediate_size": int(self.field("llama.feed_forward_length")),
            "num_hidden_layers": int(self.field("llama.block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": int(self.field("llama.attention.head_count_kv")),
            "head_dim": hidden // heads,
            "max_position_embeddings": int(self.field("llama.context_length")),
            "rms_norm_eps": round(float(self.field("llama.attention.layer_norm_rms_epsilon")), 12),
            "rope_theta": float(self.field("llama.rope.freq_base")),
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": "lm_head.weight" not in self.shapes(),
            "torch_dtype": "float32",
            **self.special_ids(),
        }

    def special_ids(self) -> dict[str, int]:
        """Ids of the begin, end and padding tokens, under Hugging Face's names."""
        return {
            "bos_token_id": int(self.field("tokenizer.ggml.bos_token_id")),
            "eos_token_id": int(self.field("tokenizer.ggml.eos_token_id")),
            "pad_token_id": int(self.field("tokenizer.ggml.padding_token_id")),
        }
