"""The table of drafters: a new drafter is one row here, and gets every contract test."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DrafterCase:
    """A registered name, options that the tests try, and whether it proposes at all."""

    name: str
    options: dict[str, int | str] = field(default_factory=dict)
    proposes: bool = True

    def __str__(self) -> str:
        return "-".join((self.name, *(f"{key}{value}" for key, value in self.options.items())))


CASES = (
    DrafterCase("none", proposes=False),
    DrafterCase("prompt_lookup"),
    DrafterCase("prompt_lookup", {"longest": 1, "shortest": 1}),
    DrafterCase("prompt_lookup", {"longest": 3, "shortest": 2}),
    DrafterCase("ngram_corpus"),
    DrafterCase("suffix"),
    DrafterCase("adjacency", proposes=False),
    DrafterCase("goose"),
    DrafterCase("graft"),
    DrafterCase("graft", {"inner": "prompt_lookup"}),
    DrafterCase("bench_widths"),
)
