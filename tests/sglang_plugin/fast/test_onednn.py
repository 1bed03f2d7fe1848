"""Packed linears against F.linear, and reading rows out of the packed memory."""

import platform

import pytest
import torch

from service.sglang_plugin.fast import onednn

pytestmark = pytest.mark.skipif(onednn.unavailable_reason() is not None, reason="no oneDNN operators")

SIZES = [(960, 576), (576, 1536), (100, 40), (7, 5)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 8, 13, 70])
@pytest.mark.parametrize("with_bias", [False, True])
def test_equals_plain_linear(size, rows, with_bias):
    torch.manual_seed(0)
    weight, x = torch.randn(size) * 0.05, torch.randn(rows, size[1])
    bias = torch.randn(size[0]) if with_bias else None
    out = onednn.linear(x, onednn.PackedWeight.pack(weight), bias)
    torch.testing.assert_close(out, torch.nn.functional.linear(x, weight, bias), atol=1e-5, rtol=1e-5)


def test_strided_and_three_dimensional_inputs():
    torch.manual_seed(0)
    weight, wide = torch.randn(48, 32), torch.randn(6, 3, 64)
    packed = onednn.PackedWeight.pack(weight)
    for x in (wide[..., :32], wide[:, 0, 32:], wide[0].t()[:32].t()):
        out = onednn.linear(x, packed)
        torch.testing.assert_close(out, torch.nn.functional.linear(x, weight), atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="seen on x86 only, not promised elsewhere")
@pytest.mark.parametrize("size", [(960, 576), (576, 1536), (1536, 576)])
def test_a_row_has_the_same_bits_alone_and_among_others(size):
    torch.manual_seed(0)
    packed, x = onednn.PackedWeight.pack(torch.randn(size)), torch.randn(70, size[1])
    whole = onednn.linear(x, packed)
    for rows in (1, 2, 3, 4, 8, 12, 16, 64):
        assert torch.equal(onednn.linear(x[:rows], packed), whole[:rows]), rows


@pytest.mark.parametrize("size", [*SIZES, (1000, 64), (4097, 32)])
def test_unpacking_gives_the_weight_back(size):
    weight = torch.randn(size)
    packed = onednn.PackedWeight.pack(weight)
    assert torch.equal(packed.unpack(), weight)
    rows = packed.rows_view()
    if rows is not None:
        ids = torch.tensor([[0, size[0] - 1], [size[0] // 2, 0]])
        assert torch.equal(rows.read(ids), weight[ids])


def test_the_layout_of_large_tables_is_read_in_place():
    assert onednn.PackedWeight.pack(torch.randn(2048, 576)).rows_view() is not None


def test_a_layout_that_is_not_understood_is_refused():
    packed = onednn.PackedWeight.pack(torch.randn(2048, 576))
    assert onednn.BlockedRows.find(packed, widths=(8,)) is None


@pytest.mark.parametrize("weight", ["bfloat16", "three dimensions"])
def test_only_float32_matrices_are_packed(weight):
    bad = torch.zeros(8, 8, dtype=torch.bfloat16) if weight == "bfloat16" else torch.zeros(2, 8, 8)
    with pytest.raises(ValueError, match="float32 matrices"):
        onednn.PackedWeight.pack(bad)


def test_a_build_without_the_operators_says_so(monkeypatch):
    monkeypatch.setattr(onednn, "OPERATORS", ("_no_such_operator",))
    assert "lacks torch.ops.mkldnn._no_such_operator" in str(onednn.unavailable_reason())
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert "no oneDNN" in str(onednn.unavailable_reason())
