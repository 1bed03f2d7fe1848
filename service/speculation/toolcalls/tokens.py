"""Text of committed tokens, and the tokens that a model would write for text behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.speculation.drafter import Tokenizer
from service.speculation.toolcalls.memory import CallMemory

UNFINISHED = "\ufffd"
UNLIKELY = 0.15
LONGEST_CHARACTER = 4


class Spelling(NamedTuple):
    """Tokens of a text, each with the length of text it reaches to; from token `start` on they have `chance`."""

    tokens: tuple[tuple[int, int], ...]
    start: int
    chance: float


class TokenText:
    """Turns tokens into text piece by piece and text into tokens, remembering both in the tenant's memory."""

    def __init__(self, tokenizer: Tokenizer, memory: CallMemory) -> None:
        self._tokenizer = tokenizer
        self._memory = memory
        self._open: list[int] = []

    def push(self, token: int) -> str:
        """The text that became certain with this token; a character's first bytes alone are none yet."""
        if not self._open and (piece := self.piece(token)) is not None:
            return piece
        self._open.append(token)
        text = self._tokenizer.decode(self._open)
        if text.endswith(UNFINISHED) and len(self._open) < LONGEST_CHARACTER:
            return ""
        self._open.clear()
        return text

    def piece(self, token: int) -> str | None:
        """The text of one token; None when it is no whole characters."""
        known = self._memory.pieces.get(token)
        if known is None:
            known = self._tokenizer.decode([token])
            self._memory.pieces.put(token, known)
        return None if UNFINISHED in known else known

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of many tokens."""
        return self._tokenizer.decode(tokens)

    def behind(self, written: Sequence[int], prefix: str, text: str, probe: str) -> list[Spelling]:
        """The tokens of `text` behind `prefix`, whose tokens are `written`, in the one or two ways that are likely.

        The whole is encoded, so that tokens over the joints of its parts come out as the model writes them; where
        that does not begin with what was written, the text is encoded by itself. `probe` stands for what may come
        next: a token that would swallow part of it is not among the result.
        """
        key = (*written, text, probe)
        tokens = self._memory.encoded.at(key, lambda: self._behind(tuple(written), prefix, text, probe))
        return self._spellings(written[-1] if written else -1, tokens)

    def _spellings(self, before: int, tokens: tuple[tuple[int, int], ...]) -> list[Spelling]:
        """The tokens as this model is known to split them: text that a grammar forces on it it spells its own way."""
        for i, (token, reached) in enumerate(tokens):
            shares = self._memory.first(before, token)
            if len(shares) > 1:
                return [
                    Spelling((*tokens[:i], *self._split(token, first, reached), *tokens[i + 1 :]), i, share)
                    for first, share in shares.items()
                    if share > UNLIKELY
                ]
            before = token
        return [Spelling(tokens, 0, 1.0)]

    def _split(self, token: int, first: int, reached: int) -> list[tuple[int, int]]:
        if first == token:
            return [(token, reached)]
        whole, begun = self.piece(token) or "", self.piece(first) or ""
        start = reached - len(whole) + len(begun)
        return [(first, start), *self._spelled(whole[len(begun) :], start)]

    def _spelled(self, text: str, start: int) -> list[tuple[int, int]]:
        tokens = self._memory.encoded.at(text, lambda: self._behind((), "", text, ""))
        return [(token, start + reached) for token, reached in tokens]

    def compare(self, before: int, drafted: Iterable[int], written: int) -> None:
        """Learn how the model spells words: one of `drafted`, or the beginning of one, was written behind `before`."""
        begun = self.piece(written) or ""
        if not begun[-1:].isalnum():
            return
        for token in drafted:
            whole = self.piece(token) or ""
            # Within words only: elsewhere another token is another text, such as other white space.
            if token == written or (whole.startswith(begun) and whole[len(begun)].isalnum()):
                self._memory.learn_first(before, token, written)

    def _behind(self, written: tuple[int, ...], prefix: str, text: str, probe: str) -> tuple[tuple[int, int], ...]:
        whole = self._tokenizer.encode(prefix + text + probe)
        fits = tuple(whole[: len(written)]) == written
        rest = whole[len(written) :] if fits else self._tokenizer.encode(text + probe)
        reached, result = 0, []
        for token in rest:
            piece = self.piece(token)
            if piece is None or not text.startswith(piece, reached):
                break
            reached += len(piece)
            result.append((token, reached))
        return tuple(result)
