"""Which backends have read which beginnings of prompts, as far as this gateway knows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class PrefixIndex:
    """A prefix tree of whole blocks, stored as chained hashes with the addresses of the backends that read them.

    It is bounded: when `most` blocks are stored, the ones that were longest not used are forgotten, as engines forget
    theirs. Hashes are Python's, keyed anew in each process, so that nobody can choose prompts that collide.

    Parameters: `block` bytes; `most` blocks stored, each about 300 bytes of memory.
    """

    block: int = 256
    most: int = 65_536
    _readers: OrderedDict[int, dict[str, None]] = field(default_factory=OrderedDict, repr=False)

    def __len__(self) -> int:
        return len(self._readers)

    def known(self, text: bytes) -> dict[str, int]:
        """Bytes of the beginning that each backend has read, by address; those that read nothing are left out."""
        found: dict[str, int] = {}
        for number, key in enumerate(self._keys(text)):
            readers = self._readers.get(key)
            # Who has not read all blocks before has not this one in its cache.
            now = [url for url in readers or () if found.get(url, 0) == number * self.block]
            if not now:
                break
            found |= dict.fromkeys(now, (number + 1) * self.block)
        return found

    def note(self, text: bytes, url: str) -> None:
        """The backend will read the text. Mutates the index."""
        for key in self._keys(text):
            self._readers.setdefault(key, {})[url] = None
            self._readers.move_to_end(key)
        while len(self._readers) > self.most:
            self._readers.popitem(last=False)

    def _keys(self, text: bytes) -> Iterator[int]:
        """One hash a whole block, each of all blocks up to it."""
        key = 0
        for start in range(0, len(text) - self.block + 1, self.block):
            key = hash((key, text[start : start + self.block]))
            yield key
