"""A Llama of a few hundred weights as a GGUF file, and what its conversion must give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INNER = 3, 4, 2, 4, 32, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "1", "2", "Ġ", "ab", "Ġa"]
SPECIAL = 3


def to_llama_cpp(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The permutation that llama.cpp's converter applies to q and k, as its source has it."""
    rows = weights.shape[0]
    return weights.reshape(heads, 2, rows // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def write(path: Path, architecture: str = "llama", rule: str = "smollm") -> dict[str, NDArray[np.float32]]:
    """Write the file; returns the float32 weights under their Hugging Face names."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    random = np.random.default_rng(0)
    writer = GGUFWriter(path, architecture)
    _write_metadata(writer, rule)
    expected: dict[str, NDArray[np.float32]] = {}

    def add(name: str, hf_name: str, *shape: int, heads: int = 0) -> None:
        weights = random.standard_normal(shape).astype(np.float32)
        kind = GGMLQuantizationType.F32 if len(shape) == 1 else GGMLQuantizationType.Q8_0
        if len(shape) > 1:
            weights = quants.dequantize(quants.quantize(weights, kind), kind)
        expected[hf_name] = weights
        stored = to_llama_cpp(weights, heads) if heads else weights
        writer.add_tensor(name, quants.quantize(stored, kind) if len(shape) > 1 else stored, raw_dtype=kind)

    add("token_embd.weight", "model.embed_tokens.weight", len(TOKENS), HIDDEN)
    for layer in range(LAYERS):
        gguf, hf = f"blk.{layer}", f"model.layers.{layer}"
        add(f"{gguf}.attn_norm.weight", f"{hf}.input_layernorm.weight", HIDDEN)
        add(f"{gguf}.attn_q.weight", f"{hf}.self_attn.q_proj.weight", HEADS * HEAD_DIM, HIDDEN, heads=HEADS)
        add(f"{gguf}.attn_k.weight", f"{hf}.self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, heads=KV_HEADS)
        add(f"{gguf}.attn_v.weight", f"{hf}.self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add(f"{gguf}.attn_output.weight", f"{hf}.self_attn.o_proj.weight", HIDDEN, HIDDEN)
        add(f"{gguf}.ffn_norm.weight", f"{hf}.post_attention_layernorm.weight", HIDDEN)
        add(f"{gguf}.ffn_gate.weight", f"{hf}.mlp.gate_proj.weight", INNER, HIDDEN)
        add(f"{gguf}.ffn_up.weight", f"{hf}.mlp.up_proj.weight", INNER, HIDDEN)
        add(f"{gguf}.ffn_down.weight", f"{hf}.mlp.down_proj.weight", HIDDEN, INNER)
    add("output_norm.weight", "model.norm.weight", HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def _write_metadata(writer: Any, rule: str) -> None:
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(TOKENS)
    writer.add_token_types([SPECIAL if token.startswith("<|") else 1 for token in TOKENS])
    writer.add_token_merges(["a b", "Ġ a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
