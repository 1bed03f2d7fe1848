"""Strict: a draft token is committed when it is the target's best token."""

from __future__ import annotations

from service.speculation.accept_rule import AcceptRule, TargetRows
from service.speculation.tree import DraftTree, follow


class Strict(AcceptRule):
    """Greedy verification; the text is that of plain decoding, token by token (arXiv 2211.17192, section 2)."""

    lossless = True

    def walk(self, tree: DraftTree, rows: TargetRows) -> tuple[list[int], list[int]]:
        """Follow the target's best tokens from the root."""
        ((path, emitted),) = follow([tree], lambda wanted: [rows.best(1 + node) for _, node in wanted])
        return path, emitted
