"""Penalties behind every node of a draft tree, as if its path were already the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from service.speculation.tree import DraftTree

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req

    from service.sglang_plugin.verify_input import RaggedVerifyInput


@dataclass(frozen=True, slots=True)
class Penalties:
    """What one request's generated tokens do to its next ones; `early` tokens may not come among the first `least`.

    As SGLang defines them: `frequency` is subtracted from a token's logit for each time that it was generated,
    `presence` once, and `repetition` divides what is then positive and multiplies what is negative. Tokens of the
    prompt do not count.
    """

    frequency: float = 0.0
    presence: float = 0.0
    repetition: float = 1.0
    least: int = 0
    early: tuple[int, ...] = ()

    @classmethod
    def of(cls, req: Req) -> Penalties | None:
        """The request's own; None when it has none, or none that still matters."""
        params = req.sampling_params
        least = params.min_new_tokens if params.min_new_tokens > len(req.output_ids) else 0
        if not (params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1.0 or least):
            return None
        early = _ending_tokens(req) if least else ()
        return cls(params.frequency_penalty, params.presence_penalty, params.repetition_penalty, least, early)

    def apply(self, logits: torch.Tensor, text: Sequence[int], tree: DraftTree) -> None:
        """Penalise the rows of one tree, its root first. Mutates `logits`, float [1 + nodes, vocab].

        `text` are the generated tokens, the root's included. Row r is what plain decoding would see after the text and
        the tokens on the path down to r.
        """
        if text or tree.tokens:
            tokens, counts = (part.to(logits.device) for part in _counts(text, tree))
            values = logits[:, tokens] - self.frequency * counts - self.presence * (counts > 0)
            factors = torch.where(counts > 0, self.repetition, 1.0)
            logits[:, tokens] = torch.where(values < 0, values * factors, values / factors)
        if self.early:
            rows = [row for row, depth in enumerate((0, *tree.depths())) if len(text) + depth < self.least]
            logits[torch.tensor(rows, dtype=torch.int64)[:, None], torch.tensor(self.early)] = -torch.inf


def penalize(logits: torch.Tensor, reqs: Sequence[Req], verify: RaggedVerifyInput) -> None:
    """Penalise all rows of a verify batch. Mutates `logits`, float [rows, vocab].

    SGLang counts one token a request and step, so its own counts are wrong once a step commits several.
    """
    for req, tree, start in zip(reqs, verify.trees, verify.starts, strict=True):
        if (penalties := Penalties.of(req)) is not None:
            penalties.apply(logits[start : start + 1 + len(tree)], req.output_ids, tree)


def _counts(text: Sequence[int], tree: DraftTree) -> tuple[torch.Tensor, torch.Tensor]:
    """The different tokens, int64 [m], and how often each came before every row, float32 [1 + nodes, m]."""
    written = torch.tensor(list(text), dtype=torch.int64)
    drafted = torch.tensor(tree.tokens, dtype=torch.int64)
    tokens = torch.cat((written, drafted)).unique()
    counts = torch.zeros(1 + len(tree), len(tokens))
    counts[0] = torch.bincount(torch.searchsorted(tokens, written), minlength=len(tokens))
    columns = torch.searchsorted(tokens, drafted).tolist()
    for node, (parent, column) in enumerate(zip(tree.parents, columns, strict=True)):
        counts[1 + node] = counts[1 + parent]
        counts[1 + node, column] += 1
    return tokens, counts


def _ending_tokens(req: Req) -> tuple[int, ...]:
    """The tokens that would end the text, as SGLang's `BatchedMinNewTokensPenalizer` collects them."""
    own, tokenizer = req.sampling_params.stop_token_ids or set(), req.tokenizer
    known = {*own, *(req.eos_token_ids or ()), *(tokenizer.additional_stop_token_ids or ()), tokenizer.eos_token_id}
    return tuple(sorted(token for token in known if token is not None))
