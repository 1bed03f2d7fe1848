"""Seeds of sampled requests: every one has a seed, and the choices of one request have different ones."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

SEED_MASK = 2**62 - 1
CHOICE = "-choice-"
_CHOICE_RID = re.compile(rf"{CHOICE}(\d{{1,4}})$")


def choice_rid(rid: str, number: int) -> str:
    """The id of one of the `n` completions of request `rid`; 0 is SGLang's prefix warm-up."""
    return f"{rid}{CHOICE}{number}"


def seed_of(seed: int | None, rid: str) -> int:
    """The seed of one completion: the client's, else a random one. Choices behind the first (see `choice_rid`) get
    seeds derived from it, so that `n` choices differ and yet repeat."""
    if seed is None:
        return secrets.randbits(62)
    choice = _CHOICE_RID.search(rid)
    if choice is None or int(choice[1]) < 2:
        return seed & SEED_MASK
    digest = hashlib.blake2b(f"{seed}:{choice[1]}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") & SEED_MASK


def add_seeds(result: SamplingBatchInfo, cls: type, batch: Any, vocab_size: int) -> SamplingBatchInfo:
    """After hook of `SamplingBatchInfo.from_schedule_batch`: SGLang seeds requests in its deterministic mode only.

    A seed is drawn once a request and kept on it as `specserve_seed`; greedy requests get one too, because SGLang
    merges batches column by column. Mutates the result and the requests.
    """
    del cls, vocab_size
    for req in batch.reqs:
        if not hasattr(req, "specserve_seed"):
            req.specserve_seed = seed_of(req.sampling_params.sampling_seed, req.rid)
    result.sampling_seed = torch.tensor([req.specserve_seed for req in batch.reqs], dtype=torch.int64)
    return result
