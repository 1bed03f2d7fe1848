"""A machine whose step times are a table: what CPU engines look like, and GPUs before and behind their knee."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from service.speculation.cost import CostModel, Floats

CPU = {1: 1.0, 2: 1.03, 4: 1.08, 8: 1.18, 12: 1.27, 24: 1.6, 48: 2.4, 96: 4.3, 192: 8.2, 384: 16.0}
"""Seconds of a pass over so many rows, in passes over one; the shape was measured up to 96."""
FLAT = {1: 1.0, 64: 1.05, 128: 1.12, 256: 2.0, 512: 4.0}
"""A GPU: memory bound up to some hundred rows."""


@dataclass(frozen=True)
class Machine:
    """`table` by rows, linear in between; `unit` seconds of a pass over one row; `noise` relative."""

    table: Mapping[int, float]
    unit: float = 0.04
    noise: float = 0.0

    def cost(self, rows: float) -> float:
        """Of a pass over `rows`, in passes over one."""
        points = sorted(self.table)
        high = next((point for point in points if point >= rows), points[-1])
        low = max((point for point in points if point <= rows), default=points[0])
        if high == low:
            return self.table[low]
        share = (rows - low) / (high - low)
        return self.table[low] * (1 - share) + self.table[high] * share

    def seconds(self, rows: int, generator: random.Random) -> float:
        """Of one pass, as measured."""
        return self.unit * self.cost(rows) * max(0.2, generator.gauss(1, self.noise))


@dataclass
class KnownCost(CostModel):
    """A cost model that knows the machine's table from the start."""

    machine: Machine = field(default_factory=lambda: Machine(CPU))

    def curve(self, requests: int, rows: Floats, context: int) -> Floats:
        """The table's seconds."""
        return np.array([self.machine.unit * self.machine.cost(float(count)) for count in rows])
