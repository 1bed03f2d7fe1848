"""Text of committed tokens, and the tokens that a model would write for text behind them."""

from __future__ import annotations

from collections.abc import Sequence

from service.speculation.drafter import Tokenizer
from service.speculation.toolcalls.memory import CallMemory

UNFINISHED = "\ufffd"
LONGEST_CHARACTER = 4


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

    def behind(self, written: Sequence[int], prefix: str, text: str, probe: str) -> tuple[tuple[int, int], ...]:
        """The tokens of `text` behind `prefix`, whose tokens are `written`, each with the length of text it reaches to.

        The whole is encoded, so that tokens over the joints of its parts come out as the model writes them; where
        that does not begin with what was written, the text is encoded by itself. `probe` stands for what may come
        next: a token that would swallow part of it is not among the result.
        """
        key = (*written, text, probe)
        return self._memory.encoded.at(key, lambda: self._behind(tuple(written), prefix, text, probe))

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
