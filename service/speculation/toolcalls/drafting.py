"""Drafts inside tool calls of one request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from service.speculation.drafter import Tokenizer
from service.speculation.toolcalls.expand import Candidate, Step, expand
from service.speculation.toolcalls.formats import ARRAY, FORMATS, MARKED, Format
from service.speculation.toolcalls.memory import CallMemory
from service.speculation.toolcalls.options import SCAFFOLD, Options
from service.speculation.toolcalls.place import At, Grammar, Place
from service.speculation.toolcalls.reader import Reader
from service.speculation.toolcalls.schema import Toolbox
from service.speculation.toolcalls.style import Style
from service.speculation.toolcalls.tokens import UNFINISHED, TokenText
from service.speculation.toolcalls.tree import Node, grow, likeliest
from service.speculation.tree import DraftTree

COPY = "copy"
SURE = 0.25
"""Where the schema leaves less than this open, nothing is copied."""
HISTORY = 1024
"""How many of the prompt's last tokens are searched for earlier calls of the conversation."""
EARLIER = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class CallDrafter:
    """Reads an answer token by token and proposes what the tools' schemas allow next."""

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, memory: CallMemory, floor: float, most: int
    ) -> None:
        self._toolbox = Toolbox(tools)
        self._grammar = Grammar(self._toolbox)
        self._memory = memory
        self._style = Style(memory)
        self._text = TokenText(tokenizer, memory)
        self._reader = Reader(self._grammar, memory, self._style)
        self._options = Options(self._grammar, memory, self._style, most)
        self._floor = floor
        self._written: list[int] = []
        self._prefix = ""
        self._drafted: Node | None = None
        self._hinted: set[Format] = set()

    def start(self, prompt: Sequence[int]) -> None:
        """Learn from the calls in the prompt's end; a call that it leaves open is gone on with."""
        text = self._text.decode(prompt[-HISTORY:])
        for match in EARLIER.finditer(text):
            if self._is_call(match[1]):
                Reader(self._grammar, self._memory, self._style).feed(match[0])
        self._hinted = {one for one in MARKED if one.begin in text}
        for one in MARKED:
            at = text.rfind(one.begin)
            if at >= 0 and one.end and one.end not in text[at:] and len(text) - at < 2000:
                self._reader.feed(text[at:])

    def read(self, tokens: Sequence[int]) -> None:
        """Follow committed tokens."""
        node = self._drafted
        for token in tokens:
            if node is not None:
                self._text.compare(self._written[-1] if self._written else -1, node.children, token)
                node = node.children.get(token)
            piece = self._text.push(token)
            self._reader.feed(piece)
            place = self._reader.place
            if place is None or place.free:
                self._written.clear()
                self._prefix = ""
            else:
                self._written.append(token)
                self._prefix += piece

    def propose(self, budget: int, copied: Callable[[int], DraftTree]) -> DraftTree:
        """Likely texts behind the committed one as a tree; inside free values also what `copied` drafts.

        Outside calls, where no call is about to open, the draft is that of `copied` alone.
        """
        root = self._drafted = Node(-1, "")
        for candidate in self._candidates(budget):
            for spelling in self._text.behind(self._written, self._prefix, candidate.text, candidate.probe):
                grow(root, candidate, spelling)
        place = self._reader.place
        if place is None:
            return likeliest(root, budget, self._floor) if root.children else copied(budget)
        unknown = max(0.0, 1.0 - sum(child.chance for child in root.children.values()))
        if place.free or unknown > SURE:
            self._graft(root, place, copied(budget), budget, 1.0 if place.free else unknown)
        return likeliest(root, budget, self._floor)

    def _graft(self, root: Node, place: Place, tree: DraftTree, budget: int, scale: float) -> None:
        """Add another drafter's chain as far as the call's JSON allows it, and go on behind a value that it ends."""
        chances = tree.chances() or (0.5,) * len(tree)
        node, behind, ended = root, place, False
        for i, token in enumerate(tree.tokens):
            after = self._grammar.walk(behind, self._text.piece(token) or UNFINISHED)
            if after is None or tree.parents[i] != i - 1:
                return
            node = node.children.setdefault(token, Node(token, COPY))
            node.steps[i] = max(node.chance, scale * chances[i])
            if behind.free and not after.free and not ended:
                ended = True
                for candidate in self._expanded(Candidate("", (), after, node.chance), budget):
                    for spelling in self._text.behind((), "", candidate.text, candidate.probe):
                        grow(node, candidate, spelling)
            behind = after

    def _candidates(self, nodes: int) -> list[Candidate]:
        reader = self._reader
        place = reader.place
        if place is None:
            return [longer for first in self._openings() for longer in self._expanded(first, nodes)]
        if reader.format is not None:
            self._options.format = reader.format
        if place.at is At.DONE:
            return list(self._ending(place))
        return self._expanded(Candidate("", (), place), nodes)

    def _expanded(self, first: Candidate, nodes: int) -> list[Candidate]:
        return expand(self._options, first, nodes, self._floor)

    def _ending(self, place: Place) -> Iterator[Candidate]:
        """The mark behind a complete call, as far as it is not written yet."""
        for option in self._options.at(place):
            if option.text.startswith(self._reader.tail) and len(option.text) > len(self._reader.tail):
                rest = option.text[len(self._reader.tail) :]
                yield Candidate(rest, (Step(len(rest), option.chance, SCAFFOLD),), option.place)

    def _openings(self) -> Iterator[Candidate]:
        """The rest of a mark that the text has begun, or the whole where the answer begins."""
        tail = self._reader.tail
        for one in MARKED:
            sizes = (n for n in range(len(one.begin) - 1, 0, -1) if tail.endswith(one.begin[:n]))
            known = next(sizes, 0)
            # One character begins much else; three are hardly chance.
            if known > 2 or (known and one in self._hinted):
                yield self._opening(one, one.begin[known:], 0.95 if known > 2 else 0.8)
        if self._reader.begun:
            return
        if tail == "[":
            self._options.format = ARRAY
            yield Candidate("", (), self._grammar.walk(self._grammar.root(True), tail), 0.8)
        elif not tail:
            total = self._memory.openings.total + 1.0
            for name, count in self._memory.openings.counts().items():
                for one in FORMATS:
                    if one.name == name:
                        self._options.format = one
                        yield self._opening(one, one.begin, count / total)

    def _opening(self, one: Format, text: str, chance: float) -> Candidate:
        place = self._grammar.root(one.many)
        return Candidate(text, (Step(len(text), chance, SCAFFOLD),) if text else (), place, chance)

    def _is_call(self, text: str) -> bool:
        try:
            value = json.loads(text)
        except ValueError:
            return False
        return isinstance(value, dict) and value.get("name") in self._toolbox
