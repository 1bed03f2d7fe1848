"""The key file and the keyring."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from typer.testing import CliRunner

from service.cli import app as cli
from service.errors import ConfigError
from service.gateway.admission.key_file import hash_of, new_key, read_key_file
from service.gateway.admission.keyring import Keyring

MODELS = frozenset({"smol", "big"})


def entry(key: str = "k", **fields: Any) -> dict[str, Any]:
    return {"tenant": "acme", "hash": f"sha256:{hash_of(key.encode()).hex()}", **fields}


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"keys": list(entries)}))
    return path


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"weight": -1}, "keys.0.weight"),
        ({"weight": float("inf")}, "keys.0.weight"),
        ({"requests_per_minute": 0}, "keys.0.requests_per_minute"),
        ({"tokens_per_minute": -5}, "keys.0.tokens_per_minute"),
        ({"tokens_per_minute": True}, "keys.0.tokens_per_minute"),
        ({"max_concurrent": 1.5}, "keys.0.max_concurrent"),
        ({"priority": "urgent"}, "keys.0.priority"),
        ({"models": []}, "keys.0.models"),
        ({"models": ["gone"]}, "keys.0.models"),
        ({"tenant": "a b"}, "keys.0.tenant"),
        ({"hash": "secret-in-the-open"}, "keys.0.hash"),
        ({"rpm": 3}, "keys.0.rpm"),
    ],
)
def test_a_faulty_entry_is_refused_by_its_field_and_without_its_value(
    tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read_key_file(write(tmp_path / "keys.yaml", entry(**fields)), MODELS)
    assert named in str(refused.value)
    assert "secret-in-the-open" not in str(refused.value)


@pytest.mark.parametrize("text", ["keys: [", "", "[]", "keys: 3", "\x00", "keys: {}", "other: []"])
def test_a_faulty_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"gateway\.api_keys: .*keys\.yaml"):
        read_key_file(path, MODELS)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key_file(tmp_path / "none.yaml", MODELS)


def test_keys_of_one_tenant_must_agree_and_hashes_be_unique(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="differ in their limits"):
        read_key_file(write(tmp_path / "a", entry("1"), entry("2", weight=2)), MODELS)
    with pytest.raises(ConfigError, match="two entries have one `hash`"):
        read_key_file(write(tmp_path / "b", entry("1"), entry("1", tenant="other")), MODELS)


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"keys": [{"tenant": "a", "hash": "sha256:' + hash_of(b"k").hex() + '"}]}')
    assert read_key_file(path, MODELS)[hash_of(b"k")].name == "a"


@pytest.mark.parametrize("keys", [1, 500])
@pytest.mark.parametrize("asked", ["first", "last", "nobody's"])
def test_one_digest_is_compared_whatever_the_number_of_keys_and_whichever_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, asked: str
) -> None:
    made = [new_key() for _ in range(keys)]
    ring = Keyring(write(tmp_path / "keys", *(entry(key, tenant=f"t{k}") for k, key in enumerate(made))), None, MODELS)
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def counted(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    key = {"first": made[0], "last": made[-1]}.get(asked, "sk-wrong")
    assert (ring.tenant(key.encode()) is None) == (asked == "nobody's")
    assert compared == [(32, 32)]


def test_a_faulty_reload_keeps_the_keys_and_a_good_one_changes_them(tmp_path: Path) -> None:
    path = write(tmp_path / "keys", entry("old"))
    ring, log = Keyring(path, "single", MODELS), structlog.get_logger()
    path.write_text("keys: nonsense")
    assert not ring.reload(log)
    assert ring.tenant(b"old") is not None
    write(path, entry("new"))
    assert ring.reload(log)
    assert ring.tenant(b"old") is None
    assert ring.tenant(b"new") is not None
    assert ring.tenant(b"single") is not None


def test_the_printed_line_is_a_line_of_the_file(tmp_path: Path) -> None:
    out = CliRunner().invoke(cli, ["keys", "new", "acme"]).output
    key = out.split("key, shown once: ")[1].split()[0]
    path = tmp_path / "keys.yaml"
    path.write_text("keys:\n" + out.splitlines()[-1])
    found = Keyring(path, None, MODELS).tenant(key.encode())
    assert found is not None
    assert found.name == "acme"


def test_a_name_that_cannot_be_a_label_is_refused() -> None:
    assert isinstance(CliRunner().invoke(cli, ["keys", "new", "a b"]).exception, ConfigError)
