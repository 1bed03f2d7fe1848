"""Packed codes: exact where they can be, within half a step elsewhere."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.kvcache.quantizer import BITS, Quantizer
from service.kvcache.rotation import rotation_registry


def rows(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


@given(
    bits=st.sampled_from(BITS),
    dim=st.sampled_from([8, 64, 128]),
    parts=st.sampled_from([1, 2]),
    scale=st.sampled_from([1e-3, 1.0, 300.0]),
    seed=st.integers(0, 999),
)
def test_errors_stay_within_half_a_step(bits: int, dim: int, parts: int, scale: float, seed: int) -> None:
    quantizer = Quantizer(bits, dim, dim // parts)
    values = rows(seed, 5, 3, dim, scale=scale)
    packed = quantizer.encode(values)
    assert packed.shape == (5, 3, quantizer.row_bytes) and packed.dtype == torch.uint8
    grouped = values.unflatten(-1, (parts, dim // parts))
    wide = grouped.abs().amax(-1) / 127 if bits == 8 else (grouped.amax(-1) - grouped.amin(-1)) / (2**bits - 1)
    # Scale and least value are float16: their own rounding comes on top.
    bound = 0.51 * wide + 2**-10 * grouped.abs().amax(-1) + 127 * 2**-25
    error = (quantizer.decode(packed) - values).unflatten(-1, (parts, dim // parts))
    # Below 8 bits outliers may be cut off, where that makes the whole group's error smaller.
    assert bool(((error.abs().amax(-1) if bits == 8 else error.square().mean(-1).sqrt()) <= bound).all())


@given(bits=st.sampled_from(BITS), seed=st.integers(0, 999))
def test_what_was_decoded_encodes_to_the_same(bits: int, seed: int) -> None:
    quantizer = Quantizer(bits, 64, 64)
    once = quantizer.decode(quantizer.encode(rows(seed, 4, 64)))
    torch.testing.assert_close(quantizer.decode(quantizer.encode(once)), once, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("bits", BITS)
def test_every_code_survives_packing(bits: int) -> None:
    quantizer = Quantizer(bits, 64, 64)
    codes = (torch.arange(64) * 5 % 2**bits).to(torch.uint8)
    assert torch.equal(quantizer._unpack(quantizer._pack(codes)), codes)


@pytest.mark.parametrize("bits", BITS)
def test_equal_values_and_zeros(bits: int) -> None:
    quantizer = Quantizer(bits, 8, 8)
    for value in (0.0, 3.0, -2.5):
        torch.testing.assert_close(
            quantizer.decode(quantizer.encode(torch.full((2, 8), value))),
            torch.full((2, 8), value),
            rtol=1e-3,
            atol=1e-4,
        )


def test_bytes_against_bfloat16_for_heads_of_64() -> None:
    ratios = {bits: 2 * 64 / Quantizer(bits, 64, 64).row_bytes for bits in BITS}
    assert ratios[8] >= 1.9 and ratios[4] >= 3.5 and ratios[2] >= 6


@pytest.mark.parametrize(("bits", "dim", "group"), [(3, 64, 64), (4, 64, 48), (2, 6, 6), (4, 64, 0)])
def test_what_cannot_be_packed_is_refused(bits: int, dim: int, group: int) -> None:
    with pytest.raises(ValueError, match="bits|group_size"):
        Quantizer(bits, dim, group)


@pytest.mark.parametrize("name", ["none", "hadamard"])
@pytest.mark.parametrize("dim", [1, 2, 64, 128])
def test_rotations_keep_scores(name: str, dim: int) -> None:
    matrix = rotation_registry().load(name)().matrix(dim)
    if matrix is not None:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(dim), rtol=1e-5, atol=1e-5)
        query, key = rows(1, dim), rows(2, dim)
        torch.testing.assert_close((query @ matrix) @ (key @ matrix), query @ key, rtol=1e-4, atol=1e-4)


def test_hadamard_shrinks_the_range_of_an_outlier() -> None:
    values = rows(3, 100, 64)
    values[:, 7] += 40
    matrix = rotation_registry().load("hadamard")().matrix(64)
    assert matrix is not None
    quantizer = Quantizer(4, 64, 64)
    plain = (quantizer.decode(quantizer.encode(values)) - values).square().mean()
    turned = (quantizer.decode(quantizer.encode(values @ matrix)) @ matrix.T - values).square().mean()
    assert turned < plain / 4


def test_hadamard_refuses_other_dimensions() -> None:
    with pytest.raises(ValueError, match="rotation none"):
        rotation_registry().load("hadamard")().matrix(80)


def test_a_range_that_is_cut_loses_less() -> None:
    values = rows(5, 400, 64)
    cut, whole = Quantizer(2, 64, 64), (values.amax(-1, keepdim=True) - values.amin(-1, keepdim=True)) / 3
    steps = ((values - values.amin(-1, keepdim=True)) / whole).round() * whole + values.amin(-1, keepdim=True)
    lost = (cut.decode(cut.encode(values)) - values).square().mean()
    assert lost < 0.8 * (steps - values).square().mean()
