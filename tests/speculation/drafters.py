"""The table of drafters: a new drafter is one row here, and gets every contract test."""

from __future__ import annotations

from dataclasses import dataclass, field

TINY = "tiny"
"""Stands for the folder of a tiny model, which is made when a test needs it."""


@dataclass(frozen=True)
class DrafterCase:
    """A registered name, options that the tests try, and whether it proposes at all.

    `model`: it runs a model and gets a tiny one, so that its tokens need not be in the text, and examples cost time.
    """

    name: str
    options: dict[str, int | str] = field(default_factory=dict)
    proposes: bool = True
    model: bool = False

    def __str__(self) -> str:
        return "-".join((self.name, *(f"{key}{value}" for key, value in self.options.items())))


CASES = (
    DrafterCase("none", proposes=False),
    DrafterCase("prompt_lookup"),
    DrafterCase("prompt_lookup", {"longest": 1, "shortest": 1}),
    DrafterCase("prompt_lookup", {"longest": 3, "shortest": 2}),
    DrafterCase("agent_blocks"),
    DrafterCase("ngram_corpus"),
    DrafterCase("suffix"),
    DrafterCase("toolspec"),
    DrafterCase("adjacency", proposes=False),
    DrafterCase("goose"),
    DrafterCase("graft"),
    DrafterCase("graft", {"inner": "prompt_lookup"}),
    DrafterCase("bench_widths"),
    DrafterCase("draft_model", {"model": TINY, "depth": 2}, model=True),
    DrafterCase("draft_model", {"model": TINY, "depth": 2, "branches": 3, "min_confidence": 0}, model=True),
    DrafterCase("layer_skip", {"depth": 2}, model=True),
    DrafterCase("pard", {"model": TINY}, model=True),
)
