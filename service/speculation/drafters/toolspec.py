"""ToolSpec: draft what the schemas of the request's tools force, and what past calls and the prompt suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from service.speculation.drafter import Drafter, DraftRequest, NoDrafter, drafter_registry
from service.speculation.toolcalls.drafting import CallDrafter
from service.speculation.toolcalls.memory import CallMemory
from service.speculation.tree import DraftTree


@dataclass
class ToolSpec(Drafter):
    """Inside tool calls drafts JSON from the tools' schemas, elsewhere what `fallback` drafts.

    What it needs to be told, by `DraftRequest`: `tools`, the request's OpenAI tool objects as the client sent them
    (none when the request's `tool_choice` is "none"), and a `tokenizer`. Without either it is `fallback` alone. It
    finds out by itself how calls are written: marks of hermes and Qwen 2.5 or 3 (`<tool_call>`), Llama 3
    (`<|python_tag|>` or a bare object) and Mistral (`[TOOL_CALLS]`), and the array of `{"name": ..., "parameters":
    ...}` that SGLang's JSON grammar forces for `tool_choice` "required" without a parser's own format. That grammar
    lets the model choose any white space, so white space is learnt from the text and from past calls.

    Based on ToolSpec (training-free drafting from tool schemas). Only committed text moves the automaton, so a
    rejected draft cannot mislead it, and each candidate is encoded as a whole behind what was written, so tokens
    over joints come out as the model writes them. Past calls of the tenant (and of the conversation) are counted:
    keys behind keys, values of parameters, tools, ways to open a call; bounded, and never across tenants.

    Sources: "scaffold" is what the schema leaves no choice about, "choice" one of several things that it allows
    (a tool, an optional parameter, the end, an enum's value) and what is forced behind it, "retrieval" a value of
    a past call, "copy" what the fallback finds inside a call; outside calls the fallback's own. Not for models that
    write calls as Python or XML: there it only falls back.

    Parameters: `fallback`, the name of a drafter that learns from text alone (default suffix); `floor`, the least
    chance of a node (default 0.05); `most`, how many alternatives are looked at where a schema allows more, such as
    very many tools.
    """

    fallback: str = "suffix"
    floor: float = 0.05
    most: int = 8
    _inner: Drafter = field(default_factory=NoDrafter, init=False, repr=False)
    _calls: CallDrafter | None = field(default=None, init=False, repr=False)
    _prompt: list[int] | None = field(default_factory=list, init=False, repr=False)

    @classmethod
    def for_request(cls, request: DraftRequest, **options: Any) -> Self:
        """With tools and a tokenizer it drafts calls; without either, `fallback` alone works."""
        drafter = cls(**options)
        kind = drafter_registry().load(drafter.fallback)
        if kind.learns_from:
            raise ValueError(f"toolspec cannot fall back to {drafter.fallback!r}, which learns from the target's rows")
        drafter._inner = kind.for_request(request)
        if request.tools and request.tokenizer is not None:
            memory = request.memory.get(request.tenant, "toolspec", CallMemory)
            drafter._calls = CallDrafter(request.tools, request.tokenizer, memory, drafter.floor, drafter.most)
        return drafter

    def observe(self, tokens: Sequence[int]) -> None:
        """Take committed tokens; what comes before `answer_begins`, or else the first proposal, is the prompt."""
        self._inner.observe(tokens)
        if self._calls is None:
            return
        if self._prompt is None:
            self._calls.read(tokens)
        else:
            self._prompt.extend(tokens)

    def answer_begins(self) -> None:
        """The prompt is complete: whatever call stands in it is none of the answer's."""
        if self._calls is not None and self._prompt is not None:
            self._calls.start(self._prompt)
            self._prompt = None

    def propose(self, budget: int) -> DraftTree:
        """Scaffold where the schema knows what comes, the fallback's draft elsewhere."""
        if self._calls is None:
            return self._inner.propose(budget)
        self.answer_begins()
        return self._calls.propose(budget, self._inner.propose)
