"""The whole fast decoder against plain torch operators, on a small random model."""

import platform

import pytest
import torch

from service.bench.cpu_replica import Replica, Shape
from service.sglang_plugin.fast import onednn
from service.sglang_plugin.fast.decoder import Decoder, DecoderLayer, Linear, Norm, tensor_eps

pytestmark = pytest.mark.skipif(onednn.unavailable_reason() is not None, reason="no oneDNN operators")

SMALL = Shape(layers=2, hidden=96, heads=6, kv_heads=2, dim=16, intermediate=160, vocabulary=256, context=128)


@pytest.fixture(scope="module")
def replica():
    return Replica.random(SMALL)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 8, 12, 70])
def test_a_step_equals_plain_operators(replica, tokens):
    ids = torch.arange(tokens) % SMALL.vocabulary
    expected = replica.plain_step(torch.float32)(ids)
    torch.testing.assert_close(replica.packed_step()(ids), expected, atol=1e-5, rtol=1e-4)


def decoder(layers=3, hidden=32):
    torch.manual_seed(0)

    def linear(outputs, inputs):
        bias = torch.randn(outputs) * 0.1
        return Linear(onednn.PackedWeight.pack(torch.randn(outputs, inputs) * 0.1), bias)

    norm = Norm(torch.rand(hidden), tensor_eps(1e-5))
    layer = DecoderLayer(
        input_norm=norm,
        qkv=linear(64, hidden),
        out=linear(hidden, 32),
        post_norm=norm,
        gate_up=linear(80, hidden),
        down=linear(hidden, 40),
        heads=2,
        kv_heads=1,
        dim=16,
    )
    return Decoder((layer,) * layers, norm, lambda: torch.rand(50, 16))


def echo(index):
    def attend(query, key, value):
        assert key.shape == value.shape == (query.shape[0], 1, 16)
        return query * (index + 1)

    return attend


def test_snapshots_are_the_inputs_of_the_named_layers():
    whole, x = decoder(), torch.randn(2, 32)
    hidden, snapshots = whole.forward(x, torch.tensor([0, 0]), echo, captured=[0, 2])
    assert hidden.shape == (2, 32)
    assert torch.equal(snapshots[0], x)
    assert snapshots[1].shape == (2, 32) and not torch.equal(snapshots[1], x)


def test_attention_sees_only_real_tokens_and_the_input_is_kept():
    whole, x = decoder(), torch.randn(1, 32)
    kept, seen = x.clone(), []

    def attention(index):
        def attend(query, key, value):
            seen.append((query.shape[0], key.shape[0], value.shape[0]))
            return query

        return attend

    whole.forward(x, torch.tensor([3]), attention)
    assert seen == [(1, 1, 1)] * 3
    assert torch.equal(x, kept)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="seen on x86 only, not promised elsewhere")
def test_a_token_has_the_same_bits_alone_and_among_others():
    replica = Replica.random(Shape(layers=2, vocabulary=64))
    layers, norm = [], Norm(torch.rand(576), tensor_eps(1e-5))
    for weights in replica.weights:
        packed = {name: Linear(onednn.PackedWeight.pack(weight)) for name, weight in weights.items()}
        layers.append(
            DecoderLayer(norm, packed["qkv"], packed["out"], norm, packed["gate_up"], packed["down"], 9, 3, 64)
        )
    whole = Decoder(tuple(layers), norm, lambda: replica.angles)
    x, positions = torch.randn(12, 576), torch.arange(12)

    def attention(index):
        return lambda query, key, value: query

    together, _ = whole.forward(x, positions, attention)
    for tokens in (1, 2, 3, 5, 8):
        alone, _ = whole.forward(x[:tokens], positions[:tokens], attention)
        assert torch.equal(alone, together[:tokens]), tokens
