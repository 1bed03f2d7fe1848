"""Which models the fast decoder takes, and that its `forward` stands in for SGLang's."""

from types import SimpleNamespace

import pytest
import torch
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.models import llama as sglang_llama
from sglang.srt.models import qwen2
from torch.nn import Module, Parameter

from service.sglang_plugin.fast import linear, llama, onednn

pytestmark = pytest.mark.skipif(onednn.unavailable_reason() is not None, reason="no oneDNN operators")

HIDDEN, HEADS, KV_HEADS, DIM, WIDE = 32, 2, 1, 16, 48


def bare(kind, **fields):
    """An SGLang module without its constructor, which needs a whole runtime."""
    module = kind.__new__(kind)
    Module.__init__(module)
    for name, value in fields.items():
        setattr(module, name, value)
    return module


def norm():
    return bare(RMSNorm, weight=Parameter(torch.rand(HIDDEN)), variance_epsilon=1e-5, variance_size_override=None)


def packed(outputs, inputs):
    module = bare(Module, weight=Parameter(torch.randn(outputs, inputs) * 0.1), bias=None, prefix="a.b")
    module.quant_method = linear.PackedLinearMethod()
    linear.pack_layer(module)
    return module


def echo(query, key, value, forward_batch):
    forward_batch.calls.append((query.shape, key.shape, value.shape))
    return query


def model(family=llama.FAMILIES[0], layers=2):
    torch.manual_seed(0)
    kind, layer_kind, attention_kind, mlp_kind = family
    angles = torch.rand(64, DIM // 2)
    rotary = bare(RotaryEmbedding, is_neox_style=True, rotary_dim=DIM, head_size=DIM)
    rotary.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), -1)

    def layer():
        attention = bare(attention_kind, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=DIM, rotary_emb=rotary)
        attention.qkv_proj = packed((HEADS + 2 * KV_HEADS) * DIM, HIDDEN)
        attention.o_proj = packed(HIDDEN, HEADS * DIM)
        attention.attn = SimpleNamespace(forward=echo)
        mlp = bare(mlp_kind, gate_up_proj=packed(2 * WIDE, HIDDEN), down_proj=packed(HIDDEN, WIDE))
        return bare(
            layer_kind,
            self_attn=attention,
            mlp=mlp,
            input_layernorm=norm(),
            post_attention_layernorm=norm(),
        )

    table = torch.randn(10, HIDDEN)
    whole = bare(kind, layers=torch.nn.ModuleList([layer() for _ in range(layers)]), norm=norm())
    whole.embed_tokens = lambda ids: table[ids]
    whole.layers_to_capture = []
    return whole


@pytest.mark.parametrize("family", llama.FAMILIES)
def test_known_families_are_accepted(family):
    assert llama.refusal(model(family)) is None


def test_subclasses_and_strangers_are_refused():
    assert "Linear is not a known" in str(llama.refusal(torch.nn.Linear(1, 1)))

    class Other(sglang_llama.LlamaModel):
        pass

    assert "Other is not a known" in str(llama.refusal(bare(Other)))
    mixed = (sglang_llama.LlamaModel, qwen2.Qwen2DecoderLayer, qwen2.Qwen2Attention, qwen2.Qwen2MLP)
    assert "layer 0: Qwen2DecoderLayer" in str(llama.refusal(model(mixed)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: linear.unpack_layer(m.layers[1].mlp.down_proj), "layer 1: a.b is not packed"),
        (lambda m: setattr(m.layers[0].self_attn.rotary_emb, "is_neox_style", False), "Neox"),
        (lambda m: setattr(m.layers[0].self_attn.rotary_emb, "rotary_dim", 8), "Neox"),
        (lambda m: setattr(m.layers[1].self_attn, "rotary_emb", model().layers[0].self_attn.rotary_emb), "differs"),
        (lambda m: setattr(m.layers[0].input_layernorm, "variance_size_override", 8), "partial variance"),
        (lambda m: setattr(m.norm, "weight", Parameter(torch.rand(HIDDEN).bfloat16())), "float32"),
        (lambda m: setattr(m, "norm", torch.nn.Identity()), "Identity is not RMSNorm"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_layer(change, words):
    whole = model()
    change(whole)
    assert words in str(llama.refusal(whole))


def test_forward_runs_every_layer_and_captures_on_demand():
    whole = model()
    forward = llama.FastForward(whole)
    batch = SimpleNamespace(calls=[])
    ids, positions = torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6])
    hidden = forward(ids, positions, batch)
    assert hidden.shape == (3, HIDDEN)
    assert batch.calls == [((3, HEADS * DIM), (3, KV_HEADS, DIM), (3, KV_HEADS, DIM))] * 2
    embedded = forward(ids, positions, batch, input_embeds=whole.embed_tokens(ids))
    assert torch.equal(embedded, hidden)
    whole.layers_to_capture = [1]
    again, captured = forward(ids, positions, batch)
    assert torch.equal(again, hidden) and len(captured) == 1 and captured[0].shape == (3, HIDDEN)


def test_reloaded_weights_are_used_and_unpacked_layers_go_to_sglang():
    whole = model()
    whole.forward = lambda *args: "stock"
    forward = llama.FastForward(whole)
    batch, ids = SimpleNamespace(calls=[]), torch.tensor([1])
    before = forward(ids, ids, batch)
    layer = whole.layers[0].self_attn.qkv_proj
    linear.unpack_layer(layer)
    assert forward(ids, ids, batch) == "stock"
    layer.weight.data.mul_(-1)
    linear.pack_layer(layer)
    after = forward(ids, ids, batch)
    assert after.shape == before.shape and not torch.equal(after, before)


def test_an_empty_batch_goes_to_sglang():
    whole = model()
    whole.forward = lambda *args: "stock"
    assert llama.FastForward(whole)(torch.empty(0, dtype=torch.long), None, None) == "stock"
