"""Which draft tokens of a verify pass are committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from service.sglang_plugin.request_extras import tools_of
from service.sglang_plugin.sampling import NextTokens
from service.sglang_plugin.verify_input import RaggedVerifyInput
from service.speculation.accept_rule import AcceptRule, Exempt, accept_registry
from service.speculation.tree import follow

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

Found = tuple[list[int], list[int]]


class Acceptance:
    """Exact for sampled requests and under a lossless rule; else the pool's rule for the greedy requests it may touch.

    A lossy rule never touches requests with a grammar or with tools. Raises at the start for an unknown rule and for
    options that it does not have.
    """

    def __init__(self, rule: str, options: Mapping[str, Any], ends: Iterable[int] = ()) -> None:
        self._rule = accept_registry().load(rule)
        self._options = dict(options)
        self._exempt = Exempt(frozenset(ends))
        self._rules: dict[str, AcceptRule] = {}
        self._rule.for_request(self._exempt, **self._options)

    def found(
        self, reqs: Sequence[Req], verify: RaggedVerifyInput, logits: torch.Tensor, info: SamplingBatchInfo
    ) -> list[Found]:
        """For each request the accepted nodes and the emitted tokens. `logits` float [rows, vocab] are final."""
        draws = NextTokens(logits, info, verify.rows, verify.positions)
        starts = verify.starts
        found = follow(verify.trees, lambda wanted: draws([starts[i] + 1 + node for i, node in wanted]))
        if self._rule.lossless:
            return found
        self._rules = {req.rid: self._rules[req.rid] for req in reqs if req.rid in self._rules}
        for i, (req, tree, start) in enumerate(zip(reqs, verify.trees, starts, strict=True)):
            if len(tree) and may_touch(req):
                rule = self._rules.setdefault(req.rid, self._rule.for_request(self._exempt, **self._options))
                found[i] = rule.walk(tree, _Rows(logits[start : start + 1 + len(tree)]))
        return found


def may_touch(req: Req) -> bool:
    """Whether a lossy rule may apply: the request is greedy and writes free text."""
    params = req.sampling_params
    return bool(params.top_k == 1 and req.grammar is None and not tools_of(params.custom_params))


class _Rows:
    """`TargetRows` over logits [rows, vocab]."""

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits
        self._top, best = logits.max(-1)
        self._best: list[int] = best.tolist()

    def best(self, row: int) -> int:
        return self._best[row]

    def regret(self, row: int, token: int) -> float:
        return float(self._top[row] - self._logits[row, token])
