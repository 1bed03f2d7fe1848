from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from service import registry as module
from service.errors import UnknownNameError
from service.registry import Registry


@pytest.fixture
def registry() -> Registry[str]:
    made: Registry[str] = Registry("things")
    made.register("own")(lambda **options: f"own {options}")
    return made


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("foreign", "tests.test_registry:foreign", "specserve.things"),
        EntryPoint("broken", "tests.no_such_module:thing", "specserve.things"),
        EntryPoint("own", "tests.no_such_module:thing", "specserve.things"),
    ]
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "specserve.things" else [])


def foreign(**options: object) -> str:
    return f"foreign {options}"


def test_creates_by_name_with_options(registry: Registry[str]) -> None:
    assert registry.create("own", size=2) == "own {'size': 2}"


def test_a_name_is_taken_once(registry: Registry[str]) -> None:
    with pytest.raises(ValueError, match="'own' is registered already"):
        registry.register("own")(lambda: "again")


def test_unknown_names_list_the_known(registry: Registry[str]) -> None:
    with pytest.raises(UnknownNameError, match="unknown things 'odd'; known: own"):
        registry.create("odd")


@pytest.mark.usefixtures("third_party")
def test_third_parties_add_names_but_replace_none(registry: Registry[str]) -> None:
    assert sorted(registry) == ["broken", "foreign", "own"]
    assert registry.create("foreign", a=1) == "foreign {'a': 1}"
    assert registry.create("own") == "own {}"
    assert "broken" in registry


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(("allowed", "seen"), [("", ["own"]), ("foreign, x", ["foreign", "own"])])
def test_one_variable_limits_third_parties(
    registry: Registry[str], monkeypatch: pytest.MonkeyPatch, allowed: str, seen: list[str]
) -> None:
    monkeypatch.setenv("SPECSERVE_PLUGINS", allowed)
    assert sorted(registry) == seen
    with pytest.raises(UnknownNameError):
        registry.create("broken")
