from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.profiles.config import Config, load_config


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("SPECSERVE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "specserve.yaml"
    path.write_text(
        "gateway: {port: 1111, ops_port: 2222}\nlog_level: error\n"
        "models: [{name: a, aliases: [b], pools: [{name: x}, {name: y, backends: ['http://h:1']}]}]\n"
    )
    return path


def test_defaults_serve_the_default_model() -> None:
    config = load_config()
    assert config.gateway.port == 8000
    assert [model.name for model in config.models] == ["smollm2-135m-instruct"]
    assert config.models[0].pools[0].profile.speculation.algorithm == "specserve"


def test_order_is_option_environment_file_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECSERVE_GATEWAY__PORT", "3333")
    monkeypatch.setenv("SPECSERVE_GATEWAY__OPS_PORT", "4444")
    config = load_config(file, gateway={"port": 5555})
    assert (config.gateway.port, config.gateway.ops_port) == (5555, 4444)
    assert config.log_level == "error"
    assert config.gateway.max_choices == Config().gateway.max_choices


def test_models_from_the_file(file: Path) -> None:
    model = load_config(file).models[0]
    assert (model.name, model.aliases) == ("a", ("b",))
    assert [pool.backends for pool in model.pools] == [(), ("http://h:1",)]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("gatway: {port: 1}", "gatway"),
        ("gateway: {prot: 1}", "prot"),
        ("gateway: {port: high}", "port"),
        ("models: [{name: a, pools: [{profile: {speculation: {algorithm: magic}}}]}]", "algorithm"),
        ("models: []", "models"),
        ("models: [{name: a}, {name: b, aliases: [a]}]", "share a name"),
        ("models: [{name: a, pools: [{}, {}]}]", "two pools of one name"),
        ("models: [{name: a, pools: [{name: 'a b'}]}]", "name"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ValidationError, match=where):
        load_config(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_settings_are_frozen_and_hide_secrets() -> None:
    config = load_config(gateway={"api_key": "s3cret"})
    with pytest.raises(ValidationError):
        config.gateway.port = 1  # type: ignore[misc]
    assert "s3cret" not in f"{config!r} {config.model_dump(mode='json')}"


def test_every_setting_is_described() -> None:
    from service.cli_reference import settings_rows

    assert [row.name for row in settings_rows(Config) if not row.description] == []
