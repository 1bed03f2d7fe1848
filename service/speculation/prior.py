"""The target model's own next-token statistics, built from the model alone and read by drafters that start cold."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "specserve-prior-1"
PRIOR_NAME = "specserve.prior"
"""Name of the prior in its model's folder; engines take every file there that ends in `safetensors` for weights."""
_TYPES = {"U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "F16": np.float16}

Entry = tuple[list[int], list[float]]
"""Next tokens in falling order of probability, and their probabilities."""


def context_key(token: int, before: int | None = None) -> int:
    """The key of a context of one token, or of two."""
    return token if before is None else (before + 1) << 32 | token


@dataclass(frozen=True)
class Prior:
    """Next tokens behind single tokens and pairs of tokens: sorted `keys` of contexts, row i of `ids` and
    `probabilities` for `keys[i]`. It holds nobody's text: whatever it knows was sampled from the model itself."""

    keys: np.ndarray
    ids: np.ndarray
    probabilities: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def get(self, key: int) -> Entry | None:
        """What follows the context, or None where the model never met it."""
        place = int(self.keys.searchsorted(np.uint64(key)))
        if place == len(self.keys) or int(self.keys[place]) != key:
            return None
        return self.ids[place].tolist(), self.probabilities[place].tolist()


@lru_cache(maxsize=4)
def load_prior(path: Path) -> Prior:
    """Map the file into memory; it is shared by all who ask. Blocks for the header only.

    Raises OSError when it cannot be read and ValueError when it is no prior.
    """
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        text = file.read(length) if 0 < length < 1 << 16 else b""
    try:
        header: Mapping[str, Any] = json.loads(text)
    except ValueError:
        header = {}
    if header.get("__metadata__", {}).get("format") != FORMAT:
        raise ValueError(f"{path} holds no prior of format {FORMAT}; build one from the model")
    return Prior(*(_mapped(path, header[name], 8 + length) for name in ("keys", "ids", "probabilities")))


def _mapped(path: Path, tensor: Mapping[str, Any], start: int) -> np.ndarray:
    shape = tuple(tensor["shape"])
    if 0 in shape:
        return np.zeros(shape, _TYPES[tensor["dtype"]])
    offset = start + tensor["data_offsets"][0]
    # A memmap's own indexing is slow; a plain view of it is as lazy.
    return np.memmap(path, _TYPES[tensor["dtype"]], "r", offset, shape).view(np.ndarray)


def save_prior(prior: Prior, path: Path) -> None:
    """Write the prior as a safetensors file; a reader never sees half of one. Raises OSError."""
    arrays = {"keys": prior.keys, "ids": prior.ids, "probabilities": prior.probabilities}
    names = {np.dtype(kind): name for name, kind in _TYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": FORMAT}}
    offset = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": names[array.dtype],
            "shape": array.shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())
    part.replace(path)


@dataclass
class PriorCounts:
    """Sums the distributions met behind every context, and keeps the contexts met most.

    Parameters: `width` next tokens of each context; `contexts` kept at most, which bounds the file.
    """

    width: int = 8
    contexts: int = 120_000

    def __post_init__(self) -> None:
        self._pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, before: np.ndarray, token: np.ndarray, ids: np.ndarray, probabilities: np.ndarray) -> None:
        """Positions with the last two tokens and the best next tokens ([n], [n], [n, k], [n, k]). Mutates."""
        pairs = (before.astype(np.uint64) + np.uint64(1)) << np.uint64(32) | token.astype(np.uint64)
        for keys in (token.astype(np.uint64), pairs):
            self._pieces.append((keys, ids, probabilities))

    def prior(self) -> Prior:
        """The means of what was added. Raises ValueError when that was nothing."""
        if not self._pieces:
            raise ValueError("no positions were sampled, so there is nothing to build a prior from")
        keys, ids, probabilities = (np.concatenate(column) for column in zip(*self._pieces, strict=True))
        known, at, visits = np.unique(keys, return_inverse=True, return_counts=True)
        most = int(ids.max()) + 1
        edges, place = np.unique(np.repeat(at, ids.shape[1]) * most + ids.ravel(), return_inverse=True)
        context, following = np.divmod(edges, most)
        mean = np.bincount(place.ravel(), probabilities.ravel()) / visits[context]
        order = np.lexsort((-mean, context))
        rank = np.arange(len(order)) - np.searchsorted(context, context[order])
        order, rank = order[rank < self.width], rank[rank < self.width]
        table_ids = np.zeros((len(known), self.width), np.uint16 if most <= 1 << 16 else np.uint32)
        table_p = np.zeros((len(known), self.width), np.float16)
        table_ids[context[order], rank] = following[order]
        table_p[context[order], rank] = mean[order]
        kept = np.sort(np.argsort(-visits, kind="stable")[: self.contexts])
        return Prior(known[kept], table_ids[kept], table_p[kept])
