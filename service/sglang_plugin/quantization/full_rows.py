"""Rows in full precision beside packed ones: first and newest tokens of each running request."""

from __future__ import annotations

import torch

from service.sglang_plugin.operators.window import WindowShape


class FullRows:
    """Keys and values [requests * places, kv_heads, dim] a layer, as the model made them; see `WindowShape`.

    A request's places are those of its row in SGLang's `req_to_token`: nothing is allocated or freed while it runs.
    """

    def __init__(
        self,
        shape: WindowShape,
        layers: int,
        requests: int,
        sizes: tuple[tuple[int, int], tuple[int, int]],
        dtype: torch.dtype,
        device: str,
    ) -> None:
        """`sizes` are (kv_heads, dim) of keys and of values."""
        self.shape = shape
        self._keys, self._values = (
            [torch.zeros(requests * shape.places, *size, dtype=dtype, device=device) for _ in range(layers)]
            for size in sizes
        )
        self._slots, self._places = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)

    @property
    def bytes(self) -> int:
        """Of all requests."""
        return sum(rows.numel() * rows.element_size() for rows in (*self._keys, *self._values))

    def extended(
        self, layer: int, past: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stored rows at places `past` and new ones behind them, the latter rounded as if they had been stored."""
        found = []
        for stored, new in ((self._keys[layer], keys), (self._values[layer], values)):
            rounded = new if stored.dtype == new.dtype else new.to(stored.dtype).to(new.dtype)
            found.append(torch.cat((stored.index_select(0, past).to(new.dtype), rounded)))
        return found[0], found[1]

    def store(self, layer: int, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put rows at their places. Mutates."""
        self._keys[layer].index_copy_(0, places, keys.to(self._keys[layer].dtype))
        self._values[layer].index_copy_(0, places, values.to(self._values[layer].dtype))

    def remember(self, slots: torch.Tensor, places: torch.Tensor) -> None:
        """The pass that runs now stores the rows of these slots of the pool at these places. Mutates."""
        self._slots, self._places = slots.long(), places

    def move(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """As packed rows of the last pass move between slots. Mutates. Raises KeyError for slots of other passes."""
        known = dict(zip(self._slots.tolist(), self._places.tolist(), strict=True))
        to, of = (torch.tensor([known[slot] for slot in slots.tolist()]).long() for slots in (targets, sources))
        for rows in (*self._keys, *self._values):
            rows[to] = rows[of]
