"""Keys and values of all requests that one draft model serves."""

from __future__ import annotations

import heapq
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass(eq=False)
class Lane:
    """One request's part of a pool: its slot, and the tokens whose keys and values are there.

    Cutting it back is cutting `tokens`: what lies behind is overwritten later and never looked at. The first `whole`
    tokens have rows in every layer, also in those that the drafting model leaves out.
    """

    slot: int
    tokens: list[int] = field(default_factory=list)
    whole: int = 0
    agreed: int = 0

    def missing(self, text: Sequence[int]) -> list[int]:
        """Forget what `text` contradicts; the tokens of `text` still to be fed, at least its last one. Mutates.

        `text` only ever grows, so that only tokens behind the last call's are compared.
        """
        end = min(len(self.tokens), len(text) - 1)
        while self.agreed < end and self.tokens[self.agreed] == text[self.agreed]:
            self.agreed += 1
        self.agreed = min(self.agreed, end)
        del self.tokens[self.agreed :]
        return list(text[self.agreed :])


class KvPool:
    """Per layer a tensor [slots, heads, room, dim] of keys and one of values, both growing by doubling.

    The longest request sets the room of all; on a CPU room that nobody wrote to takes no memory. Rows that were not
    written are zero, because hidden rows must be finite all the same. A lane's slot is free again when nobody holds
    the lane any more. Not thread-safe.
    """

    def __init__(self, slots: int = 1, room: int = 256) -> None:
        self._slots = slots
        self._room = room
        self._free = list(range(slots))
        self._lanes: weakref.WeakValueDictionary[int, Lane] = weakref.WeakValueDictionary()
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def lane(self) -> Lane:
        """An empty lane in the lowest free slot: neighbours can be read without a copy. Mutates the pool."""
        if not self._free:
            self._free.extend(range(self._slots, 2 * self._slots))
            self._slots *= 2
        lane = Lane(heapq.heappop(self._free))
        self._lanes[lane.slot] = lane
        weakref.finalize(lane, heapq.heappush, self._free, lane.slot).atexit = False
        return lane

    def reserve(self, room: int) -> None:
        """Make room for texts of so many tokens. Mutates the pool."""
        while self._room < room:
            self._room *= 2

    def layer(self, index: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, made or grown to the pool's size; `like` [_, heads, _, dim] gives the kind."""
        pair = self._layers.get(index)
        if pair is None or pair[0].shape[0] < self._slots or pair[0].shape[2] < self._room:
            keys, values = (self._grown(old, like) for old in pair or (None, None))
            pair = self._layers[index] = (keys, values)
        return pair

    def _grown(self, old: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
        """Zeros of the pool's size, with the rows of the lanes that are in use."""
        new = zeros(like, (self._slots, like.shape[1], self._room, like.shape[3]))
        if old is not None:
            for slot, lane in self._lanes.items():
                if slot < old.shape[0]:
                    new[slot, :, : len(lane.tokens)] = old[slot, :, : len(lane.tokens)]
        return new


def zeros(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Zeros of that kind; on a CPU memory that is taken only when it is written to, which torch's own is not."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    return torch.from_numpy(np.zeros(math.prod(shape) * like.itemsize, np.uint8)).view(like.dtype).view(shape)


def rows_of(slots: Sequence[int]) -> slice | torch.Tensor:
    """Index that reads these slots: a slice, which copies nothing, where they are neighbours in order."""
    first = slots[0]
    if list(slots) == list(range(first, first + len(slots))):
        return slice(first, first + len(slots))
    return torch.tensor(slots)


class PassCache:
    """What a transformers model sees as its cache during one forward pass over some lanes of a pool.

    `positions` [batch, width] are the places that the pass writes, `reach` the tokens that it may read of each lane.
    """

    is_compileable = False

    def __init__(self, pool: KvPool, slots: Sequence[int], positions: torch.Tensor, reach: int) -> None:
        self._pool = pool
        self._rows = rows_of(slots)
        self._write_rows = torch.tensor(slots, device=positions.device)[:, None]
        self._positions = positions
        self._start = int(positions[0, 0])
        self._reach = reach

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens already there, for a single lane; with several lanes the positions are given explicitly."""
        del layer_idx
        return self._start

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Position of the pass's first token."""
        return self.get_seq_length(layer_idx)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Keys in the pass, and the position of the first one."""
        del query_length, layer_idx
        return self._reach, 0

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [batch, heads, width, dim]; keys and values of the lanes up to `reach`. Mutates the pool."""
        found = []
        for store, new in zip(self._pool.layer(layer_idx, keys), (keys, values), strict=True):
            store[self._write_rows, :, self._positions] = new.transpose(1, 2)
            found.append(store[self._rows, :, : self._reach])
        return found[0], found[1]
