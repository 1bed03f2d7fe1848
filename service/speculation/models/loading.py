"""Loads a draft model once for the process."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from service.errors import ConfigError
from service.speculation.models.folder import config_of


@cache
def load_model(folder: str, dtype: str = "auto", device: str | None = None) -> Any:
    """The causal language model in `folder`, in evaluation mode; the same object for every call alike.

    Blocks for seconds. The weights stay mapped from their file as long as `dtype` is the file's own (`auto`), so on
    a CPU they take page cache and not memory of their own. `device` None means CUDA where there is one. Raises
    ConfigError for a folder without a usable model, and for layers that remember less than the whole text: their
    state cannot be cut back after a rejection.
    """
    from transformers import AutoModelForCausalLM

    config_of(folder)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError([f"the draft model in {folder} cannot be loaded: {error}"]) from error
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(model.config, "sliding_window", None):
        raise ConfigError(
            [
                f"the draft model in {folder} has layers of kind {', '.join(sorted(kinds))}; "
                "only full attention over the whole text can be drafted with"
            ]
        )
    return model.eval().requires_grad_(False).to(device)
