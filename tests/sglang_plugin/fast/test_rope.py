"""Rotary embedding against the definition, and what falls through to SGLang's own code."""

from types import SimpleNamespace

import pytest
import torch

from service.sglang_plugin.fast.rope import Rotation, rope_native


def table(length=64, dim=16):
    angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
    return torch.cat((angles.cos(), angles.sin()), -1)


def naive(heads, cos_sin, positions):
    cos, sin = (part.unsqueeze(1) for part in cos_sin[positions].chunk(2, -1))
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def module(**changes):
    fields = {"is_neox_style": True, "rotary_dim": 16, "head_size": 16, "cos_sin_cache": table()}
    return SimpleNamespace(**(fields | changes))


@pytest.mark.parametrize("tokens", [1, 2, 5, 70])
def test_equals_the_definition_on_strided_heads(tokens):
    torch.manual_seed(0)
    positions = torch.randint(0, 64, (tokens,))
    heads = torch.randn(tokens, 100)[:, :80].view(tokens, 5, 16)
    out = Rotation.gather(table(), positions).apply(heads)
    assert out.is_contiguous()
    torch.testing.assert_close(out, naive(heads, table(), positions), atol=1e-6, rtol=1e-6)


def test_hook_rotates_query_and_key_in_their_own_shapes():
    query, key, positions = torch.randn(3, 64), torch.randn(3, 2, 16), torch.tensor([0, 5, 63])
    q, k = rope_native(lambda *args: None, module(), positions, query, key)
    torch.testing.assert_close(q, naive(query.view(3, 4, 16), table(), positions).view(3, 64))
    torch.testing.assert_close(k, naive(key, table(), positions))


def test_offsets_shift_the_positions():
    query, positions = torch.randn(2, 16), torch.tensor([1, 2])
    shifted, _ = rope_native(lambda *args: None, module(), positions, query, query, torch.tensor([3, 4]))
    expected, _ = rope_native(lambda *args: None, module(), torch.tensor([4, 6]), query, query)
    assert torch.equal(shifted, expected)


@pytest.mark.parametrize(
    ("rotary", "dtype"),
    [
        (module(is_neox_style=False), torch.float32),
        (module(rotary_dim=8), torch.float32),
        (module(cos_sin_cache=table().bfloat16()), torch.float32),
        (module(sin_cos_cache=None), torch.float32),
        (module(), torch.bfloat16),
    ],
)
def test_everything_else_is_sglangs(rotary, dtype):
    x = torch.zeros(1, 16, dtype=dtype)
    assert rope_native(lambda *args: "stock", rotary, torch.tensor([0]), x, x) == "stock"
