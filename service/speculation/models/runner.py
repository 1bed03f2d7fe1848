"""Batched, incremental passes of one draft model over the texts of several requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from service.speculation.models.kv_pool import KvPool, Lane, PassCache
from service.speculation.models.loading import load_model

ALONE = 32
"""Pieces longer than this are fed by themselves first, so that their neighbours are not padded to them."""
CHUNK = 512
"""Tokens of a long piece in one pass; bounds the pass's memory."""


class Runner:
    """A draft model with the KV rows of the requests that it drafts for.

    `prompts` is the model that reads prompts, where it is another one than `model`: its keys and values must be at
    home in the same layers, of which `model` may leave some out. All methods block for forward passes; not thread-safe.
    """

    def __init__(self, model: Any, prompts: Any = None) -> None:
        self._model = model
        self._prompts = model if prompts is None else prompts
        self._pool = KvPool()
        self.limit = int(getattr(model.config, "max_position_embeddings", None) or 1 << 30)

    def lane(self) -> Lane:
        """A lane for a new request; dropping it frees its KV rows."""
        return self._pool.lane()

    def feed(self, lanes: Sequence[Lane], pieces: Sequence[Sequence[int]], rows: int = 1) -> torch.Tensor:
        """Append a piece (>= `rows` >= 1 tokens) to each lane: logits [batch, rows, vocabulary] of its last tokens.

        Mutates the lanes.
        """
        rest = [self._read_alone(lane, piece, rows) for lane, piece in zip(lanes, pieces, strict=True)]
        return self._forward(self._model, lanes, rest, rows)

    def _read_alone(self, lane: Lane, piece: Sequence[int], rows: int) -> Sequence[int]:
        """Feed all of a long piece but its last `rows` tokens; what is left of the piece."""
        if len(piece) - rows <= ALONE:
            return piece
        end = len(piece) - rows
        whole = lane.whole == len(lane.tokens)
        for start in range(0, end, CHUNK):
            model = self._prompts if whole else self._model
            self._forward(model, [lane], [piece[start : min(start + CHUNK, end)]], 1)
            lane.whole = len(lane.tokens) if whole else lane.whole
        return piece[end:]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _forward(self, model: Any, lanes: Sequence[Lane], pieces: Sequence[Sequence[int]], rows: int) -> torch.Tensor:
        device = model.device
        width = max(len(piece) for piece in pieces)
        tokens = torch.tensor([[*piece, *[0] * (width - len(piece))] for piece in pieces], device=device)
        starts = torch.tensor([len(lane.tokens) for lane in lanes], device=device)
        positions = starts[:, None] + torch.arange(width, device=device)
        reach = max(len(lane.tokens) for lane in lanes) + width
        self._pool.reserve(reach)
        # Each query sees the places up to its own, which hides the padding behind shorter pieces as well.
        mask = (torch.arange(reach, device=device) <= positions[:, :, None])[:, None]
        lasts = torch.tensor([len(piece) for piece in pieces], device=device)
        wanted = lasts[:, None] + torch.arange(-rows, 0, device=device)
        kept, place = wanted.unique(return_inverse=True)
        output = model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=None if width == 1 and len(lanes) == 1 else mask,
            past_key_values=PassCache(self._pool, [lane.slot for lane in lanes], positions, reach),
            use_cache=True,
            logits_to_keep=kept,
        )
        for lane, piece in zip(lanes, pieces, strict=True):
            lane.tokens.extend(piece)
        logits: torch.Tensor = output.logits[torch.arange(len(lanes), device=device)[:, None], place]
        return logits


@cache
def shared_runner(folder: str, dtype: str = "auto", device: str | None = None) -> Runner:
    """The runner of the model in `folder` that all its requests share; the first call loads the model."""
    return Runner(load_model(folder, dtype, device))
