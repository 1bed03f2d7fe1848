"""The target's answers behind verified rows, for drafters that learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from service.sglang_plugin.drafting import DraftBook
from service.sglang_plugin.verify_input import RaggedVerifyInput
from service.speculation.drafter import VerifiedRows

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req


def teach(
    book: DraftBook,
    reqs: Sequence[Req],
    verify: RaggedVerifyInput,
    logits: torch.Tensor,
    found: Sequence[tuple[list[int], list[int]]],
) -> None:
    """Give each learning drafter the best tokens behind its request's rows. Mutates the drafters.

    `logits` float [rows, vocab] of the pass; only rows of requests with learners are looked at.
    """
    for req, tree, start, (path, _) in zip(reqs, verify.trees, verify.starts, found, strict=True):
        learners = book.learners(req.rid)
        if not learners:
            continue
        rows = logits[start : start + 1 + len(tree)]
        values, best = rows.topk(max(drafter.learns_from for drafter in learners), dim=-1)
        scores = (values - rows.logsumexp(-1, keepdim=True)).exp()
        book.learn(
            req.rid,
            VerifiedRows(
                tokens=verify.draft_token[start : start + 1 + len(tree)].tolist(),
                parents=[-1, *(parent + 1 for parent in tree.parents)],
                best=best.tolist(),
                scores=scores.tolist(),
                accepted=[0, *(1 + node for node in path)],
            ),
        )
