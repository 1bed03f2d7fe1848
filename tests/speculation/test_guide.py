"""The drafter of the guide works when pasted."""

from __future__ import annotations

import re
from pathlib import Path

import service.speculation
from service.speculation.drafter import Drafter, DraftRequest

GUIDE = Path(service.speculation.__file__).parent / "README.md"


def test_the_guides_drafter_drafts() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, type[Drafter]] = {}
    exec(code, names)
    drafter = names["LastWord"].for_request(DraftRequest())
    drafter.observe([1, 2, 3, 4, 9, 2])
    assert drafter.propose(3).tokens == (3, 4, 9)
    drafter.observe([7])
    assert len(drafter.propose(3)) == 0


def test_the_guides_drafter_is_short() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    body = [line for line in code.split("class LastWord")[1].splitlines() if line.strip()]
    assert len(body) <= 10
