"""The profile and the models that a benchmark works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.engine.files import locked
from service.engine.manifest import looks_intact, write
from service.engine.store import ModelStore
from service.engine.truncate import truncate
from service.errors import ConfigError
from service.profiles.config import Config
from service.profiles.schema import Profile

DROPPED_LAYERS = range(12, 16)
"""Of SmolLM2's 30 layers the four that its next token depends on least."""

MODEL_DRAFTERS = ("draft_model", "pard", "layer_skip")
"""The drafters that run a model."""


def prepared(store: ModelStore, model: str, say: Callable[[str], None]) -> Path:
    """The folder of a packaged or local model, made if it is missing. Raises ConfigError for a hub name."""

    @contextmanager
    def progress(what: str, size: int) -> Iterator[Callable[[int], None]]:
        say(f"{what} ({size >> 20} MiB)")
        yield lambda _done: None

    folder = Path(store.prepare(model, progress))
    if not folder.is_dir():
        raise ConfigError([f"target.model: {model} is a hub name; the lossless suite needs a local folder"])
    return folder


def truncated_draft(target: Path, cache_dir: Path, dropped: range = DROPPED_LAYERS) -> Path:
    """A draft model: `target` without some middle layers, made once in the cache. Blocks for seconds."""
    draft = cache_dir / "bench" / f"{target.name}-without-{dropped.start}-to-{dropped.stop - 1}"
    with locked(draft.parent / f".{draft.name}.lock"):
        if not looks_intact(draft):
            truncate(target, draft, dropped)
            write(draft, f"{target.name} without layers {dropped.start} to {dropped.stop - 1}")
    return draft


def own_drafter_options(
    names: Iterable[str], store: ModelStore, model: str, cache_dir: Path, say: Callable[[str], None]
) -> dict[str, dict[str, str | int | float]]:
    """As `model_drafter_options`, with a draft cut out of the target `model`, which is made only where it is needed.

    Blocks for seconds. Raises ConfigError for a hub name.
    """
    chosen = [name for name in names if name in MODEL_DRAFTERS]
    if not chosen:
        return {}
    return model_drafter_options(chosen, truncated_draft(prepared(store, model, say), cache_dir))


def model_drafter_options(names: Iterable[str], draft: Path) -> dict[str, dict[str, str | int | float]]:
    """Settings of the drafters among `names` that run a model: short chains of `draft`, kept however unsure they are.

    `pard` takes the same model, which was not trained for it, with token 0 as the mask: what it proposes is poor, and
    must still change no text.
    """
    unsure: dict[str, str | int | float] = {"depth": 3, "min_confidence": 0.0}
    known: dict[str, dict[str, str | int | float]] = {
        "draft_model": {"model": str(draft), **unsure},
        "pard": {"model": str(draft), "mask_token": 0, **unsure},
        "layer_skip": unsure,
    }
    return {name: known[name] for name in names if name in known}


def base_profile(config: Config, pool: str | None) -> Profile:
    """The profile of the named pool, or of the first one. Raises ConfigError for an unknown name."""
    pools = [candidate for model in config.models for candidate in model.pools]
    for candidate in pools:
        if pool in (None, candidate.name):
            return candidate.profile
    raise ConfigError([f"--pool: there is no pool {pool!r}; known: {', '.join(p.name for p in pools)}"])
