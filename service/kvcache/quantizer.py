"""Rows of keys or values as packed integer codes. Imports torch only."""

from __future__ import annotations

from dataclasses import dataclass

import torch

BITS = (8, 4, 2)
CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6)
"""Shares of a group's range that 4 and 2 bits try to cover."""
_NUMBER = 2
"""Bytes of a scale or a least value: float16."""


@dataclass(frozen=True)
class Quantizer:
    """Each token's row of each head in groups of `group` channels, `bits` a channel, with the group's range beside it.

    8 bits are symmetric: a float16 scale a group. 4 and 2 bits are asymmetric: a float16 scale and the group's least
    value (KIVI, arXiv 2402.02750, has it so for values), of the range that loses least when cut at both ends. One
    uint8 row holds the codes and then these numbers, so that a row moves as one. Raises ValueError for sizes that
    cannot be packed.
    """

    bits: int
    dim: int
    group: int

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise ValueError(f"bits must be one of {', '.join(map(str, BITS))}, not {self.bits}")
        if self.group < 1 or self.dim % self.group or self.group % (8 // self.bits):
            raise ValueError(
                f"a head dimension of {self.dim} has no groups of {self.group} channels that fill whole bytes of "
                f"{self.bits}-bit codes: set group_size to a divisor of it"
            )

    @property
    def groups(self) -> int:
        """Groups of a row."""
        return self.dim // self.group

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's row of one head."""
        numbers = 1 if self.bits == 8 else 2
        return self.dim * self.bits // 8 + self.groups * numbers * _NUMBER

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """Float [..., dim] -> uint8 [..., row_bytes]."""
        grouped = rows.float().unflatten(-1, (self.groups, self.group))
        codes, *numbers = self._symmetric(grouped) if self.bits == 8 else self._clipped(grouped)
        tail = torch.cat(numbers, -1).view(torch.uint8)
        return torch.cat((self._pack(codes.flatten(-2).to(torch.uint8)), tail), -1)

    @staticmethod
    def _symmetric(grouped: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes [..., groups, group] around 128, and scales [..., groups]."""
        scale = _half(grouped.abs().amax(-1) / 127)
        return (grouped / scale.float().unsqueeze(-1)).round().clamp(-127, 127) + 128, scale

    def _clipped(self, grouped: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Codes [..., groups, group], scales and least values [..., groups] of the range with the least square error.

        Few steps are worth more where most channels lie, even if the outermost are cut off.
        """
        high, low = grouped.amax(-1), grouped.amin(-1)
        middle, reach = (high + low) / 2, (high - low) / 2
        ratios = torch.tensor(CLIPS, device=grouped.device).view(-1, *[1] * high.dim())
        least = _half_finite(middle - ratios * reach)
        scale = _half(2 * ratios * reach / self._top)
        start, step = least.float().unsqueeze(-1), scale.float().unsqueeze(-1)
        codes = ((grouped - start) / step).round().clamp(0, self._top)
        error = (codes * step + start - grouped).square().sum(-1)
        best = error.argmin(0, keepdim=True)
        chosen = codes.take_along_dim(best.unsqueeze(-1), 0)[0]
        return chosen, scale.take_along_dim(best, 0)[0], least.take_along_dim(best, 0)[0]

    def decode(self, packed: torch.Tensor) -> torch.Tensor:
        """uint8 [..., row_bytes] -> float32 [..., dim]."""
        split = self.dim * self.bits // 8
        codes = self._unpack(packed[..., :split]).float().unflatten(-1, (self.groups, self.group))
        numbers = packed[..., split:].contiguous().view(torch.float16).float()
        scale = numbers[..., : self.groups].unsqueeze(-1)
        if self.bits == 8:
            return ((codes - 128) * scale).flatten(-2)
        return torch.addcmul(numbers[..., self.groups :].unsqueeze(-1), codes, scale).flatten(-2)

    @property
    def _top(self) -> int:
        return (1 << self.bits) - 1

    def _pack(self, codes: torch.Tensor) -> torch.Tensor:
        """Codes uint8 [..., dim] -> bytes; the first quarter (or half) of the channels lies in the lowest bits."""
        parts = codes.chunk(8 // self.bits, -1)
        packed = parts[0].clone()
        for place, part in enumerate(parts[1:], start=1):
            packed |= part << (place * self.bits)
        return packed

    def _unpack(self, packed: torch.Tensor) -> torch.Tensor:
        if self.bits == 8:
            return packed
        return torch.cat([(packed >> shift) & self._top for shift in range(0, 8, self.bits)], -1)


def _half(scale: torch.Tensor) -> torch.Tensor:
    """As float16, never 0 and never infinite: a row of equal values has a range of 0."""
    return scale.clamp(2.0**-24, torch.finfo(torch.float16).max).half()


def _half_finite(values: torch.Tensor) -> torch.Tensor:
    limits = torch.finfo(torch.float16)
    return values.clamp(limits.min, limits.max).half()
