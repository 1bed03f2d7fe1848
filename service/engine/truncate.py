"""Make a small draft model out of a larger one by leaving layers out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from service.engine.files import appearing, write_json
from service.engine.safetensors_io import copy_renamed
from service.errors import ConfigError

_LAYER = re.compile(r"(model\.layers\.)(\d+)(\..+)")
_INDEX = "model.safetensors.index.json"


def truncate(source: Path, target: Path, drop: Collection[int]) -> int:
    """Copy the model folder `source` to `target` without the layers `drop`; returns the layers left.

    Blocks while it copies. Raises ConfigError for layers that do not exist and for an unreadable source.
    """
    config = _config(source)
    layers = config["num_hidden_layers"]
    if wrong := sorted(set(drop) - set(range(layers))):
        raise ConfigError([f"layers {wrong} do not exist; the model has layers 0 to {layers - 1}"])
    kept = [layer for layer in range(layers) if layer not in drop]
    if not kept:
        raise ConfigError(["at least one layer must stay"])
    renumbered = {old: new for new, old in enumerate(kept)}

    def rename(name: str) -> str | None:
        match = _LAYER.fullmatch(name)
        if match is None:
            return name
        new = renumbered.get(int(match[2]))
        return None if new is None else f"{match[1]}{new}{match[3]}"

    with appearing(target) as temporary:
        for path in source.iterdir():
            if path.suffix == ".safetensors":
                copy_renamed(path, temporary / path.name, rename)
            elif path.suffix in {".json", ".jinja", ".txt", ".model"} and not path.name.startswith("specserve-"):
                shutil.copyfile(path, temporary / path.name)
        if (source / _INDEX).is_file():
            index = json.loads((source / _INDEX).read_text(encoding="utf-8"))
            renamed = {rename(name): file for name, file in index["weight_map"].items()}
            write_json(temporary / _INDEX, {**index, "weight_map": {k: v for k, v in renamed.items() if k}})
        write_json(temporary / "config.json", {**config, "num_hidden_layers": len(kept)})
    return len(kept)


def _config(source: Path) -> dict[str, int]:
    try:
        config: dict[str, int] = json.loads((source / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError([f"{source} is not a model folder: it has no config.json"]) from None
    if not any(source.glob("*.safetensors")):
        raise ConfigError([f"{source} holds no .safetensors weights"])
    return config
