"""Two models speak the same tokens, or drafting is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from service.errors import ConfigError
from service.speculation.models.folder import shared_vocabulary
from service.speculation.models.loading import load_model
from tests.speculation.tiny_models import add_tokenizer, tiny_model


def copy(folder: Path, vocabulary: int, tokens: dict[str, int]) -> str:
    shutil.copytree(tiny_model(vocabulary=vocabulary), folder)
    add_tokenizer(folder, tokens)
    return str(folder)


def test_padded_sizes_of_one_tokenizer_are_fine(tmp_path: Path) -> None:
    draft = copy(tmp_path / "draft", 80, {"a": 0, "b": 1})
    target = copy(tmp_path / "target", 64, {"a": 0, "b": 1})
    assert shared_vocabulary(draft, target) == 64


def test_one_token_of_another_meaning_is_refused(tmp_path: Path) -> None:
    draft = copy(tmp_path / "draft", 64, {"a": 0, "b": 1})
    target = copy(tmp_path / "target", 64, {"a": 0, "c": 1})
    with pytest.raises(ConfigError, match="first at token 1"):
        shared_vocabulary(draft, target)


def test_a_model_is_loaded_once() -> None:
    assert load_model(tiny_model()) is load_model(tiny_model())
