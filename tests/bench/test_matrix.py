"""Cells of the matrix, by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from service.bench import matrix
from service.bench.client import Completion
from service.bench.matrix import KINDS, MatrixRun, _cell, matrix_summary
from service.bench.models import MODEL_DRAFTERS, model_drafter_options, own_drafter_options
from service.bench.prompts import Prompt
from service.bench.servers import Workshop
from service.engine.store import ModelStore
from service.profiles.schema import Profile
from service.speculation.drafter import drafter_registry


def answer(*ids: int, margins: tuple[float, ...] | None = None, proposed: int | None = None) -> Completion:
    return Completion("", ids, "stop", margins, proposed, 0 if proposed is not None else None)


PLAIN = [answer(1, 2, 3, margins=(1.0, 1.0, 1e-5)), answer(4, 5, margins=(1.0, 1.0))]


def test_the_same_tokens_pass() -> None:
    cell = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 2, 3, proposed=4), answer(4, 5)])
    assert (cell.identical, cell.proposed, cell.passed) == (2, 4, True)


def test_a_near_tie_is_excused_and_another_difference_is_not() -> None:
    near = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 2, 9), answer(4, 5)])
    assert (near.identical, near.excused, near.passed) == (1, 1, True)
    wrong = _cell("suffix", ("fixed",), "text", "greedy", 1, PLAIN, [answer(1, 9, 3), answer(4, 5)])
    assert (wrong.excused, wrong.passed) == (0, False)
    assert not matrix_summary([near, wrong])["passed"]


def test_sampled_answers_may_differ_at_ties_but_not_often() -> None:
    sampled = [answer(number) for number in range(10)]
    one_off = [answer(99), *sampled[1:]]
    two_off = [answer(99), answer(98), *sampled[2:]]
    name = "temperature 0.8, top-p 0.9"
    assert _cell("suffix", ("fixed",), "text", name, 1, sampled, one_off).passed
    assert not _cell("suffix", ("fixed",), "text", name, 1, sampled, two_off).passed


def test_the_kinds_ask_for_text_schema_and_tools() -> None:
    assert set(KINDS) == {"text", "json schema", "tools"}
    assert KINDS["tools"]["tool_choice"] == "required"


class Answering:
    """Stands in for an engine and its client: the same answer always, unless a spoilt drafter is named."""

    def __init__(self) -> None:
        self.sharing: set[str] = set()
        self.controllers: list[tuple[str, ...]] = []
        self.wishes: list[dict[str, str]] = []

    @asynccontextmanager
    async def serving(self, name: str, profile: Profile) -> AsyncIterator[str]:
        self.sharing.add(profile.speculation.sharing)
        self.controllers.append(profile.speculation.controllers)
        yield name

    async def complete(self, _messages: object, *, custom_params: Any, **_: object) -> list[Completion]:
        wishes = custom_params["specserve"]
        self.wishes.append(wishes)
        return [answer(9 if wishes.get("drafter") == "suffix" else 1, margins=(1.0,), proposed=1)]


@pytest.mark.parametrize("shared", [False, True])
async def test_every_drafter_is_named_under_every_list_of_controllers(
    monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    engine = Answering()

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Answering]:
        yield engine

    monkeypatch.setattr(matrix, "connected", connected)
    said: list[str] = []
    run = MatrixRun([Prompt("a", "writing", "Hello")], 4, said.append, shared)
    lists = [("fixed",), ("roofline", "dcut", "hedge")]
    cells = await run.run(cast(Workshop, engine), Profile(), ("goose", "suffix"), lists, {})
    assert engine.controllers == lists
    assert engine.sharing == {"pool" if shared else "request"}
    settings = len(KINDS) * 2 * 2
    for names, drafters in zip(lists, (["goose", "suffix"], ["", "goose", "suffix"]), strict=True):
        assert [cell.drafter for cell in cells if cell.controllers == names] == drafters * settings
    assert {cell.drafter for cell in cells if not cell.passed} == {"suffix"}
    assert sum("DIFFERS" in line for line in said) == 2 * settings
    # Drafters that do not pay draft all the same; only where controllers choose may they choose nothing.
    assert {(wishes["mode"], "drafter" in wishes) for wishes in engine.wishes} == {
        ("off", False),
        ("on", True),
        ("auto", False),
    }


def test_drafters_with_models_get_settings_that_they_know(tmp_path: Path) -> None:
    options = model_drafter_options(("suffix", *MODEL_DRAFTERS), tmp_path)
    assert set(options) == set(MODEL_DRAFTERS)
    for name, chosen in options.items():
        module = import_module(drafter_registry().load(name).__module__)
        assert module.Options(**chosen).depth == 3


def test_no_draft_model_is_made_for_drafters_that_need_none(tmp_path: Path) -> None:
    said: list[str] = []
    assert own_drafter_options(("suffix", "goose"), ModelStore(tmp_path), "no-such-model", tmp_path, said.append) == {}
    assert said == [] and list(tmp_path.iterdir()) == []
